//! Formulas and numbers over the state of an object and the arguments of a call.
//!
//! [`Expression`] is the tree that the evaluator and the SMT-LIB printer read. It has no sorts. Definitions
//! are written with typed handles ([`Formula`], [`Number`], [`Element`], and the fields), which can build
//! only well-sorted trees: code that mixes up students and courses does not compile.

use std::marker::PhantomData;
use std::ops::{Add, BitAnd, BitOr, Not, Sub};

/// An uninterpreted sort: a set of elements that can only be compared for equality. Implement it for a marker
/// type.
pub trait Sort: 'static {
    /// The sort's name, capitalised: `Student`.
    const NAME: &'static str;
}

/// A tree over the fields and parameters of one definition, which are numbered in the order of their declaration.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Expression {
    /// True or false.
    Boolean(bool),
    /// Negation.
    Not(Box<Expression>),
    /// Conjunction.
    All(Vec<Expression>),
    /// Disjunction.
    Any(Vec<Expression>),
    /// Equality of two elements of one sort.
    Same(Box<Expression>, Box<Expression>),
    /// The first number is less than the second.
    Less(Box<Expression>, Box<Expression>),
    /// The first number is at most the second.
    AtMost(Box<Expression>, Box<Expression>),
    /// The body holds for every element of the sort. Variables of nested quantifiers have different names.
    Every {
        /// The bound variable.
        variable: &'static str,
        /// Sort of the variable.
        sort: &'static str,
        /// The body.
        body: Box<Expression>,
    },
    /// The body holds for some element of the sort.
    Some {
        /// The bound variable.
        variable: &'static str,
        /// Sort of the variable.
        sort: &'static str,
        /// The body.
        body: Box<Expression>,
    },
    /// A literal number.
    Number(i64),
    /// Sum.
    Add(Box<Expression>, Box<Expression>),
    /// Difference.
    Subtract(Box<Expression>, Box<Expression>),
    /// The second expression if the first holds, otherwise the third.
    If(Box<Expression>, Box<Expression>, Box<Expression>),
    /// The value of a field at its indices: true or false for sets and relations, a number for scalars and arrays.
    Read {
        /// Number of the field.
        field: usize,
        /// One element for each index of the field.
        indices: Vec<Expression>,
    },
    /// A parameter of the call.
    Parameter(usize),
    /// A variable that a quantifier binds.
    Variable(&'static str),
}

impl Expression {
    /// The direct subexpressions.
    pub fn parts(&self) -> Vec<&Self> {
        match self {
            Self::Boolean(_) | Self::Number(_) | Self::Parameter(_) | Self::Variable(_) => vec![],
            Self::Not(inner) | Self::Every { body: inner, .. } | Self::Some { body: inner, .. } => {
                vec![inner]
            }
            Self::All(parts) | Self::Any(parts) | Self::Read { indices: parts, .. } => parts.iter().collect(),
            Self::Same(first, second)
            | Self::Less(first, second)
            | Self::AtMost(first, second)
            | Self::Add(first, second)
            | Self::Subtract(first, second) => vec![first, second],
            Self::If(condition, then, otherwise) => vec![condition, then, otherwise],
        }
    }

    /// The direct subexpressions, mutable.
    pub fn parts_mut(&mut self) -> Vec<&mut Self> {
        match self {
            Self::Boolean(_) | Self::Number(_) | Self::Parameter(_) | Self::Variable(_) => vec![],
            Self::Not(inner) | Self::Every { body: inner, .. } | Self::Some { body: inner, .. } => {
                vec![inner]
            }
            Self::All(parts) | Self::Any(parts) | Self::Read { indices: parts, .. } => {
                parts.iter_mut().collect()
            }
            Self::Same(first, second)
            | Self::Less(first, second)
            | Self::AtMost(first, second)
            | Self::Add(first, second)
            | Self::Subtract(first, second) => vec![first, second],
            Self::If(condition, then, otherwise) => vec![condition, then, otherwise],
        }
    }
}

/// A truth value.
#[derive(Clone, Debug)]
pub struct Formula(pub(crate) Expression);

/// An integer. Parameters are below 2^32 in magnitude, so a 64-bit field can overflow only after 2^31 of the
/// largest calls. Overflow is asserted against.
#[derive(Clone, Debug)]
pub struct Number(pub(crate) Expression);

/// One element of a sort.
#[derive(Debug)]
pub struct Element<S> {
    pub(crate) expression: Expression,
    sort: PhantomData<fn() -> S>,
}

impl<S> Clone for Element<S> {
    fn clone(&self) -> Self {
        Self::new(self.expression.clone())
    }
}

impl<S> Element<S> {
    pub(crate) const fn new(expression: Expression) -> Self {
        Self { expression, sort: PhantomData }
    }

    /// Whether the two elements are the same.
    pub fn is(&self, other: &Self) -> Formula {
        Formula(Expression::Same(Box::new(self.expression.clone()), Box::new(other.expression.clone())))
    }
}

impl Formula {
    /// The implication: if this formula holds, `then` must hold.
    pub fn implies(self, then: Self) -> Self {
        !self | then
    }

    /// `then` if this formula holds, otherwise `otherwise`.
    pub fn choose(self, then: Number, otherwise: Number) -> Number {
        Number(Expression::If(Box::new(self.0), Box::new(then.0), Box::new(otherwise.0)))
    }
}

impl Not for Formula {
    type Output = Self;
    fn not(self) -> Self {
        Self(Expression::Not(Box::new(self.0)))
    }
}

impl BitAnd for Formula {
    type Output = Self;
    fn bitand(self, other: Self) -> Self {
        Self(Expression::All(vec![self.0, other.0]))
    }
}

impl BitOr for Formula {
    type Output = Self;
    fn bitor(self, other: Self) -> Self {
        Self(Expression::Any(vec![self.0, other.0]))
    }
}

impl From<i64> for Number {
    fn from(value: i64) -> Self {
        Self(Expression::Number(value))
    }
}

impl<N: Into<Number>> Add<N> for Number {
    type Output = Self;
    fn add(self, other: N) -> Self {
        Self(Expression::Add(Box::new(self.0), Box::new(other.into().0)))
    }
}

impl<N: Into<Number>> Sub<N> for Number {
    type Output = Self;
    fn sub(self, other: N) -> Self {
        Self(Expression::Subtract(Box::new(self.0), Box::new(other.into().0)))
    }
}

impl Number {
    /// Whether this number is at least `other`.
    pub fn at_least(self, other: impl Into<Self>) -> Formula {
        Formula(Expression::AtMost(Box::new(other.into().0), Box::new(self.0)))
    }

    /// Whether this number is greater than `other`.
    pub fn exceeds(self, other: impl Into<Self>) -> Formula {
        Formula(Expression::Less(Box::new(other.into().0), Box::new(self.0)))
    }

    /// The larger of the two numbers.
    pub fn max(self, other: impl Into<Self>) -> Self {
        let other = other.into();
        self.clone().exceeds(other.clone()).choose(self, other)
    }
}

/// The formula holds for every element of `S`. `variable` is the name of the bound variable; nested
/// quantifiers need different names.
pub fn every<S: Sort>(variable: &'static str, body: impl FnOnce(Element<S>) -> Formula) -> Formula {
    let body = Box::new(body(Element::new(Expression::Variable(variable))).0);
    Formula(Expression::Every { variable, sort: S::NAME, body })
}

/// The formula holds for some element of `S`. `variable` is the name of the bound variable; nested
/// quantifiers need different names.
pub fn some<S: Sort>(variable: &'static str, body: impl FnOnce(Element<S>) -> Formula) -> Formula {
    let body = Box::new(body(Element::new(Expression::Variable(variable))).0);
    Formula(Expression::Some { variable, sort: S::NAME, body })
}

macro_rules! field {
    ($(#[$doc:meta])* $name:ident<$($sort:ident),*>) => {
        $(#[$doc])*
        #[derive(Debug)]
        pub struct $name<$($sort),*> {
            pub(crate) field: usize,
            sorts: PhantomData<fn() -> ($($sort,)*)>,
        }
        impl<$($sort),*> Clone for $name<$($sort),*> {
            fn clone(&self) -> Self {
                *self
            }
        }
        impl<$($sort),*> Copy for $name<$($sort),*> {}
        impl<$($sort),*> $name<$($sort),*> {
            pub(crate) const fn new(field: usize) -> Self {
                Self { field, sorts: PhantomData }
            }
        }
    };
}

field! {
    /// A field that holds one number, initially 0.
    Scalar<>
}
field! {
    /// A field that holds a set of elements of `S`, initially empty.
    Set<S>
}
field! {
    /// A field that holds pairs of elements, initially none. A quantifier over the second element is
    /// evaluated for 64 elements at a time.
    Relation<A, B>
}
field! {
    /// A field that holds one number for each element of `S`, initially 0.
    Array<S>
}

impl Scalar {
    /// The value of the field.
    pub fn get(self) -> Number {
        Number(Expression::Read { field: self.field, indices: vec![] })
    }
}

impl<S> Set<S> {
    /// Whether the element is in the set.
    pub fn contains(self, element: &Element<S>) -> Formula {
        Formula(Expression::Read { field: self.field, indices: vec![element.expression.clone()] })
    }
}

impl<A, B> Relation<A, B> {
    /// Whether the pair is in the relation.
    pub fn contains(self, first: &Element<A>, second: &Element<B>) -> Formula {
        let indices = vec![first.expression.clone(), second.expression.clone()];
        Formula(Expression::Read { field: self.field, indices })
    }
}

impl<S> Array<S> {
    /// The number that the array holds for the element.
    pub fn at(self, element: &Element<S>) -> Number {
        Number(Expression::Read { field: self.field, indices: vec![element.expression.clone()] })
    }
}
