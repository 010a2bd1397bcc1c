//! Students, courses, and who is enrolled in what: two foreign keys.
//!
//! A student may be added twice: the identity is the registrar's, and the second call changes nothing. A course may only be
//! deleted when nobody is enrolled; without that guard the invariant would break at the very replica that deletes.

use crate::definition::{Builder, Definition};
use crate::expression::{Sort, every, some};

struct Student;
impl Sort for Student {
    const NAME: &'static str = "Student";
}

struct Course;
impl Sort for Course {
    const NAME: &'static str = "Course";
}

pub(super) fn define() -> Definition {
    let mut data = Builder::new("courseware", "students who are enrolled in courses");
    let students = data.set::<Student>("students");
    let courses = data.set::<Course>("courses");
    let enrolments = data.relation::<Course, Student>("enrolments");
    data.invariant(
        "every enrolment is of a student in a course",
        every("c", |course| {
            every("s", |student| {
                let both = students.contains(&student) & courses.contains(&course);
                enrolments.contains(&course, &student).implies(both)
            })
        }),
    );
    data.method("addStudent", |call| {
        let student = call.element("student");
        call.insert(students, &student);
        call.summary(|bulk| {
            let all = bulk.union("students", &student);
            bulk.insert_all(students, all);
        });
    });
    data.method("addCourse", |call| {
        let course = call.element("course");
        call.require("the course is new", !courses.contains(&course));
        call.insert(courses, &course);
    });
    data.method("deleteCourse", |call| {
        let course = call.element("course");
        call.require("the course exists", courses.contains(&course));
        call.require(
            "nobody is enrolled in the course",
            !some("s", |student| enrolments.contains(&course, &student)),
        );
        call.remove(courses, &course);
    });
    data.method("enroll", |call| {
        let student = call.element("student");
        let course = call.element("course");
        call.require("the student exists", students.contains(&student));
        call.require("the course exists", courses.contains(&course));
        call.require("the student is not enrolled yet", !enrolments.contains(&course, &student));
        call.insert_pair(enrolments, &course, &student);
    });
    data.query_whether("isEnrolled", |parameters| {
        let student = parameters.element("student");
        let course = parameters.element("course");
        enrolments.contains(&course, &student)
    });
    data.finish()
}
