//! Points of a plane.

/// A point of a plane, or a factor that rotates and scales one, or a shift, as a complex number.
pub(crate) type Point = [f32; 2];

pub(crate) fn minus(a: Point, b: Point) -> Point {
    [a[0] - b[0], a[1] - b[1]]
}

pub(crate) fn times(a: Point, b: Point) -> Point {
    [a[0] * b[0] - a[1] * b[1], a[0] * b[1] + a[1] * b[0]]
}

pub(crate) fn over(a: Point, b: Point) -> Point {
    let square = b[0] * b[0] + b[1] * b[1];
    times(a, [b[0] / square, -b[1] / square])
}

pub(crate) fn distance(a: Point, b: Point) -> f32 {
    (a[0] - b[0]).hypot(a[1] - b[1])
}
