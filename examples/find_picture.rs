//! A picture found in a picture by geometric hashing (an application of Alcantara et al. 2009).
//!
//! The pictures are of stars: bright spots, of which each is a point. Any two points of the small picture are a frame in
//! which the others have coordinates that do not change when the picture is moved, turned or scaled. A multivalue table
//! holds, for each square of coordinates, the frames in which some point lies there.
//!
//! ```text
//! index     for each frame of the small picture, each other point:   square -> frame
//! search    for some frames of the large picture:  the squares of its points there, and beside them, are looked up
//!           all at once;  each frame that is found has a vote
//! place     frame on frame is a placement;  of those with most votes the one stays that puts most spots on spots
//! ```
//!
//! ```sh
//! cargo run --release --example find_picture -- sky.png piece.png
//! ```
//!
//! Without pictures a sky is drawn, and a piece of it turned, scaled, with some of its stars missing and with others
//! that the sky has not. Its place must be found, and a piece of another sky must not. What the table answers is
//! compared with a `HashMap` of lists.

mod picture;

use std::collections::HashMap;
use std::error::Error;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use clap::Parser;
use koel::backend::HashBackend;
use koel::device::{Any, choose};
use koel::scheme::hash::SplitMix64;
use koel::{Cuckoo, MultiTable};
use picture::Picture;

/// Find a small picture of bright spots in a large one
#[derive(Parser)]
struct Args {
    /// PNG files: the large picture and the small one [default: a sky, and a piece of it]
    #[arg(num_args = 2, value_names = ["LARGE", "SMALL"])]
    pictures: Vec<PathBuf>,
    /// Where to write the two pictures [default: nowhere]
    #[arg(long)]
    out: Option<PathBuf>,
    /// auto, cpu, opencl, opencl:N or opencl:NAME
    #[arg(long, default_value = "auto")]
    device: String,
}

/// A point of a plane, or what turns, scales and moves one, as a complex number.
type Point = [f32; 2];

/// Squares on the length of a frame.
const SQUARES: f32 = 16.0;
/// How far from its first point a frame has squares, in its lengths.
const REACH: f32 = 3.0;
/// The least length of a frame, in pixels of its picture: of shorter ones the spots' own places are too uncertain.
const SHORTEST: f32 = 30.0;
/// Frames of each point of the large picture.
const FRAMES: usize = 4;
/// Placements that are tried, those with most votes first.
const TRIED: usize = 50;
/// How near a spot must be to another to count as the same, in pixels.
const SAME: f32 = 2.0;

fn main() -> Result<(), Box<dyn Error>> {
    let args = Args::parse();
    let device = choose(&args.device, None)?.swap_remove(0);
    println!("{}", device.info());
    if let [large, small] = &args.pictures[..] {
        let (large, small) = (Picture::open(large)?, Picture::open(small)?);
        if find(&device, &spots(&large), &spots(&small))?.is_none() {
            println!("it is not there");
        }
        return Ok(());
    }
    let sky = stars(1, 500, [1200.0, 900.0]);
    let (turn, scale, from) = (2.1f32, 0.8, [700.0, 400.0]);
    // From the piece to the sky: turned, made larger, and its middle moved.
    let by = [turn.cos() / scale, turn.sin() / scale];
    let truth = move |point: Point| {
        let around = [point[0] - 150.0, point[1] - 150.0];
        let turned = times(by, around);
        [from[0] + turned[0], from[1] + turned[1]]
    };
    let (large, small) = (drawn(1200, 900, &sky), drawn(300, 300, &piece(&sky, by, from)));
    let other = drawn(300, 300, &piece(&stars(2, 500, [1200.0, 900.0]), by, from));
    if let Some(folder) = &args.out {
        std::fs::create_dir_all(folder)?;
        large.save(&folder.join("sky.png"))?;
        small.save(&folder.join("piece.png"))?;
    }
    let Some(place) = find(&device, &spots(&large), &spots(&small))? else { return Err("it was not found".into()) };
    let farthest = [[0.0, 0.0], [300.0, 0.0], [0.0, 300.0], [300.0, 300.0], [150.0, 150.0]]
        .map(|at| distance(place.of(at), truth(at)))
        .into_iter()
        .fold(0.0, f32::max);
    println!("its corners are {farthest:.2} pixels from where they were taken, at most");
    if farthest > SAME {
        return Err("it was found in a wrong place".into());
    }
    match find(&device, &spots(&large), &spots(&other))? {
        None => println!("a piece of another sky is not there"),
        Some(_) => return Err("a piece of another sky was found".into()),
    }
    Ok(())
}

/// From the small picture to the large one: turned and scaled, then moved.
#[derive(Clone, Copy)]
struct Place {
    by: Point,
    to: Point,
}

impl Place {
    fn of(self, point: Point) -> Point {
        let turned = times(self.by, point);
        [turned[0] + self.to[0], turned[1] + self.to[1]]
    }
}

/// Where the small picture is in the large one, if more than half of its spots are spots there.
fn find(device: &Any, large: &[Point], small: &[Point]) -> Result<Option<Place>, Box<dyn Error>> {
    for (spots, most, which) in [(large, 5000, "large"), (small, 150, "small")] {
        if spots.len() > most {
            let spots = spots.len();
            return Err(
                format!("{spots} spots are too many for the {which} picture: give one of {most} or fewer").into()
            );
        }
    }
    let (mut keys, mut values, mut frames) = (Vec::new(), Vec::new(), Vec::new());
    for (i, &first) in small.iter().enumerate() {
        for (j, &second) in small.iter().enumerate().filter(|&(j, _)| j != i) {
            if distance(first, second) < SHORTEST {
                continue;
            }
            let others = small.iter().enumerate().filter(|&(k, _)| k != i && k != j);
            for (_, &other) in others {
                if let Some(key) = within([first, second], other).and_then(square) {
                    keys.push(key);
                    values.push(frames.len() as u32);
                }
            }
            frames.push([first, second]);
        }
    }
    let started = Instant::now();
    let table = MultiTable::builder(Cuckoo::canonical(4)).build(device, &keys, &values)?;
    let indexed = started.elapsed();

    // Every frame of the large picture, and for each of its squares who asks.
    let (mut queries, mut of, mut asked) = (Vec::new(), Vec::new(), Vec::new());
    for &first in large {
        let mut near: Vec<Point> = large.iter().copied().filter(|&to| distance(first, to) >= SHORTEST).collect();
        near.sort_by(|&a, &b| distance(first, a).total_cmp(&distance(first, b)));
        for second in near.into_iter().take(FRAMES) {
            let frame = [first, second];
            for at in large.iter().filter(|&&other| other != first && other != second).filter_map(|&o| within(frame, o))
            {
                for key in squares(at).into_iter().flatten() {
                    queries.push(key);
                    of.push(asked.len());
                }
            }
            asked.push(frame);
        }
    }
    let started = Instant::now();
    let answers = table.retrieve(&queries)?;
    let retrieved = started.elapsed();
    let mut right: HashMap<u32, Vec<u32>> = HashMap::new();
    keys.iter().zip(&values).for_each(|(&key, &value)| right.entry(key).or_default().push(value));
    let nothing = Vec::new();
    if (0..queries.len()).any(|i| answers.of(i) != right.get(&queries[i]).unwrap_or(&nothing)) {
        return Err("an answer differs from that of a HashMap".into());
    }

    let best = most_votes(&of, &answers, asked.len(), frames.len());
    let placed = best.into_iter().map(|(asked_by, frame)| {
        let ([from, from_second], [to, to_second]) = (frames[frame], asked[asked_by]);
        let by = over(minus(to_second, to), minus(from_second, from));
        let place = Place { by, to: minus(to, times(by, from)) };
        (small.iter().filter(|&&point| large.iter().any(|&at| distance(place.of(point), at) < SAME)).count(), place)
    });
    let found = placed.max_by_key(|(same, _)| *same);
    println!(
        "{} spots in {}; {} entries of {} frames indexed in {:.1} ms; {} squares of {} frames asked in {:.1} ms: {} votes",
        small.len(),
        large.len(),
        keys.len(),
        frames.len(),
        ms(indexed),
        queries.len(),
        asked.len(),
        ms(retrieved),
        answers.values.len()
    );
    if let Some((same, place)) = found.filter(|(same, _)| 2 * same > small.len()) {
        let [x, y] = place.to;
        let (turn, scale) = (place.by[1].atan2(place.by[0]).to_degrees(), place.by[0].hypot(place.by[1]));
        println!(
            "{same} spots are spots there: turned by {turn:.2} degrees, {scale:.3} times as large, at {x:.1}, {y:.1}"
        );
        return Ok(Some(place));
    }
    Ok(None)
}

/// The frames with most votes: which of the large picture, and which of the small one.
fn most_votes(of: &[usize], answers: &koel::Retrieved, asked: usize, frames: usize) -> Vec<(usize, usize)> {
    let mut best: Vec<(u32, usize, usize)> = Vec::new();
    let mut at = 0;
    for frame in 0..asked {
        let mut votes = vec![0u32; frames];
        while at < of.len() && of[at] == frame {
            answers.of(at).iter().for_each(|&value| votes[value as usize] += 1);
            at += 1;
        }
        best.extend((0..frames).map(|i| (votes[i], frame, i)).max());
    }
    best.sort_unstable_by(|a, b| b.cmp(a));
    best.into_iter().take(TRIED).map(|(_, asked, frame)| (asked, frame)).collect()
}

/// The coordinates of a point in a frame, if it is near enough.
fn within([first, second]: [Point; 2], point: Point) -> Option<Point> {
    let at = over(minus(point, first), minus(second, first));
    at.iter().all(|x| x.abs() < REACH).then_some(at)
}

/// The square that coordinates are in.
fn square(at: Point) -> Option<u32> {
    let side = |x: f32| u32::try_from(((x + REACH + 1.0) * SQUARES).floor() as i64).ok();
    Some(side(at[0])? << 16 | side(at[1])?)
}

/// That square and the three nearest to the coordinates.
fn squares(at: Point) -> [Option<u32>; 4] {
    let half = 0.5 / SQUARES;
    [[-half, -half], [half, -half], [-half, half], [half, half]].map(|[x, y]| square([at[0] + x, at[1] + y]))
}

fn minus(a: Point, b: Point) -> Point {
    [a[0] - b[0], a[1] - b[1]]
}

fn times(a: Point, b: Point) -> Point {
    [a[0] * b[0] - a[1] * b[1], a[0] * b[1] + a[1] * b[0]]
}

fn over(a: Point, b: Point) -> Point {
    let square = b[0] * b[0] + b[1] * b[1];
    times(a, [b[0] / square, -b[1] / square])
}

fn distance(a: Point, b: Point) -> f32 {
    (a[0] - b[0]).hypot(a[1] - b[1])
}

/// The middle of each bright spot, by the brightness of its pixels.
fn spots(picture: &Picture) -> Vec<Point> {
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

/// So many points at random, none near another.
fn stars(seed: u64, count: usize, size: Point) -> Vec<Point> {
    let mut draw = SplitMix64::new(seed);
    let mut share = || draw.next_u32() as f32 / 2f32.powi(32);
    let mut stars: Vec<Point> = Vec::new();
    // Some are refused, so there may be fewer in the end.
    for _ in 0..2 * count {
        let new = [share() * size[0], share() * size[1]];
        if stars.len() < count && stars.iter().all(|&star| distance(star, new) > 12.0) {
            stars.push(new);
        }
    }
    stars
}

/// What a camera sees of a sky: turned, scaled, every seventh star too dark, and a few spots that are no stars.
fn piece(sky: &[Point], by: Point, from: Point) -> Vec<Point> {
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
fn drawn(width: u32, height: u32, points: &[Point]) -> Picture {
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

fn ms(time: Duration) -> f64 {
    1e3 * time.as_secs_f64()
}
