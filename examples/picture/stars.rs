//! Skies: bright spots on black, drawn and detected.

use koel::scheme::hash::SplitMix64;

use super::Picture;
use super::plane::{Point, distance, minus, over};

/// The middle of each bright spot, by the brightness of its pixels.
pub(crate) fn spots(picture: &Picture) -> Vec<Point> {
    let (width, height) = (picture.width as usize, picture.height as usize);
    let brightness: Vec<u32> = picture
        .pixels
        .iter()
        .map(|&[red, green, blue, _]| u32::from(red) + u32::from(green) + u32::from(blue))
        .collect();
    let mut seen: Vec<bool> = brightness.iter().map(|&light| light < 3 * 40).collect();
    let mut spots = Vec::new();
    for start in 0..seen.len() {
        let (mut open, mut sum) = (Vec::new(), [0.0f32; 3]);
        if !std::mem::replace(&mut seen[start], true) {
            open.push(start);
        }
        while let Some(at) = open.pop() {
            let (x, y, light) = (at % width, at / width, brightness[at] as f32);
            sum = [sum[0] + light * (x as f32 + 0.5), sum[1] + light * (y as f32 + 0.5), sum[2] + light];
            let beside = [(x + 1 < width, at + 1), (x > 0, at.wrapping_sub(1))];
            let above = [(y + 1 < height, at + width), (y > 0, at.wrapping_sub(width))];
            for (_, next) in beside.into_iter().chain(above).filter(|(there, _)| *there) {
                if !std::mem::replace(&mut seen[next], true) {
                    open.push(next);
                }
            }
        }
        if sum[2] > 0.0 {
            spots.push([sum[0] / sum[2], sum[1] / sum[2]]);
        }
    }
    spots
}

/// Up to `count` random points, none near another.
pub(crate) fn stars(seed: u64, count: usize, size: Point) -> Vec<Point> {
    let mut draw = SplitMix64::new(seed);
    let mut share = || draw.next_u32() as f32 / 2f32.powi(32);
    let mut stars: Vec<Point> = Vec::new();
    // Some are rejected, so there may be fewer in the end.
    for _ in 0..2 * count {
        let new = [share() * size[0], share() * size[1]];
        if stars.len() < count && stars.iter().all(|&star| distance(star, new) > 12.0) {
            stars.push(new);
        }
    }
    stars
}

/// A photograph of a sky: rotated, scaled, every seventh star too dark, and a few spots that are not stars.
pub(crate) fn piece(sky: &[Point], by: Point, from: Point) -> Vec<Point> {
    let seen = sky.iter().enumerate().filter(|(i, _)| i % 7 != 0).map(|(_, &star)| {
        let around = over(minus(star, from), by);
        [around[0] + 150.0, around[1] + 150.0]
    });
    let is_inside = |point: &Point| point.iter().all(|x| (5.0..295.0).contains(x));
    let mut seen: Vec<Point> = seen.filter(is_inside).collect();
    let no_stars = stars(3, 6, [300.0, 300.0]).into_iter().filter(is_inside);
    let far = |new: &Point| seen.iter().all(|&star| distance(star, *new) > 10.0);
    let no_stars: Vec<Point> = no_stars.filter(far).collect();
    seen.extend(no_stars);
    seen
}

/// A black picture with a spot at each point.
pub(crate) fn drawn(width: u32, height: u32, points: &[Point]) -> Picture {
    let mut light = vec![0.0f32; (width * height) as usize];
    for &[x, y] in points {
        for row in (y as i32 - 4).max(0)..(y as i32 + 5).min(height as i32) {
            for column in (x as i32 - 4).max(0)..(x as i32 + 5).min(width as i32) {
                let from = distance([x, y], [column as f32 + 0.5, row as f32 + 0.5]);
                light[row as usize * width as usize + column as usize] += 255.0 * (-from * from / 3.0).exp();
            }
        }
    }
    Picture::from_fn(width, height, |x, y| {
        let light = light[(y * width + x) as usize].min(255.0) as u8;
        [light, light, light, 255]
    })
}
