//! Two sets and a relation between them: students enrolled in courses, employees assigned to projects.
//!
//! Students, courses, employees and projects may be added twice; the second time changes nothing. A course
//! may be deleted only if nobody is enrolled in it. Without that guard, the deletion would break the
//! invariant even at the replica that checks it.

use super::sets::inserting;
use super::sorts;
use crate::definition::{Builder, Definition};
use crate::expression::{every, some};

sorts!(Student, Course, Employee, Project);

pub(super) fn courseware() -> Definition {
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
        inserting(call, students, &student);
    });
    data.method("addCourse", |call| {
        let course = call.element("course");
        call.insert(courses, &course);
    });
    data.method("deleteCourse", |call| {
        let course = call.element("course");
        call.require("the course exists", courses.contains(&course));
        let enrolled = some("s", |student| enrolments.contains(&course, &student));
        call.require("nobody is enrolled in the course", !enrolled);
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

pub(super) fn project() -> Definition {
    let mut data = Builder::new("project", "employees who are assigned to projects");
    let employees = data.set::<Employee>("employees");
    let projects = data.set::<Project>("projects");
    let assignments = data.relation::<Project, Employee>("assignments");
    data.invariant(
        "every assignment is of an employee to a project",
        every("p", |project| {
            every("e", |employee| {
                let both = employees.contains(&employee) & projects.contains(&project);
                assignments.contains(&project, &employee).implies(both)
            })
        }),
    );
    data.method("addEmployee", |call| {
        let employee = call.element("employee");
        inserting(call, employees, &employee);
    });
    data.method("addProject", |call| {
        let project = call.element("project");
        call.insert(projects, &project);
    });
    data.method("deleteProject", |call| {
        let project = call.element("project");
        call.require("the project exists", projects.contains(&project));
        let assigned = some("e", |employee| assignments.contains(&project, &employee));
        call.require("nobody is assigned to the project", !assigned);
        call.remove(projects, &project);
    });
    data.method("assign", |call| {
        let employee = call.element("employee");
        let project = call.element("project");
        call.require("the employee exists", employees.contains(&employee));
        call.require("the project exists", projects.contains(&project));
        call.require("the employee is not assigned yet", !assignments.contains(&project, &employee));
        call.insert_pair(assignments, &project, &employee);
    });
    data.query_whether("isAssigned", |parameters| {
        let employee = parameters.element("employee");
        let project = parameters.element("project");
        assignments.contains(&project, &employee)
    });
    data.finish()
}
