//! Finds a picture in a picture by geometric hashing (an application in Alcantara et al. 2009).
//!
//! Each point is a bright spot: a star. Any two points of the small picture are a frame, in which the coordinates of
//! the other points do not change when the picture is moved, rotated or scaled. A multivalue table maps each square of
//! coordinates to the frames in which a point lies there.
//!
//! ```text
//! index     for each frame of the small picture and each other point:   square -> frame
//! search    for some frames of the large picture: look up the squares of its points, and the adjacent squares, in one
//!           batch; each frame found gets a vote
//! place     a pair of frames is a placement; of those with the most votes, keep the one that maps most spots to spots
//! ```
//!
//! ```sh
//! cargo run --release -p koel-examples -- find-picture sky.png piece.png
//! ```
//!
//! Without pictures, the example draws a sky, and a rotated and scaled piece of it with some stars missing and others
//! added. It must find the piece, and must not find a piece of another sky. The table's answers are compared with those
//! of a `HashMap` of lists.
//!
//! `find_picture.png` shows both pictures and the place, in `target/pictures` or the folder given by `--out`.

use std::collections::HashMap;
use std::error::Error;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use crate::picture::marks::{line, ring};
use crate::picture::plane::{Point, distance, minus, over, times};
use crate::picture::stars::{drawn, piece, spots, stars};
use crate::picture::{Colour, Out, Picture, mixed};
use koel::backend::HashBackend;
use koel::device::{Any, choose};
use koel::{Cuckoo, MultiTable};

/// Find a small picture of bright spots in a large one
#[derive(clap::Args)]
pub(crate) struct Args {
    /// PNG files: the large picture and the small one [default: a sky, and a piece of it]
    #[arg(num_args = 2, value_names = ["LARGE", "SMALL"])]
    pictures: Vec<PathBuf>,
    #[command(flatten)]
    out: Out,
    /// auto, cpu, opencl, opencl:N or opencl:NAME
    #[arg(long, default_value = "auto")]
    device: String,
}

/// The number of squares along the length of a frame.
const SQUARES: f32 = 16.0;
/// The maximum distance of squares from the first point of a frame, in lengths of the frame.
const REACH: f32 = 3.0;
/// The minimum length of a frame, in pixels of its picture: for shorter ones the positions of spots are too uncertain.
const SHORTEST: f32 = 30.0;
/// The number of frames per point of the large picture.
const FRAMES: usize = 4;
/// The number of placements that are tried, those with most votes first.
const TRIED: usize = 50;
/// The maximum distance at which two spots count as the same, in pixels.
const SAME: f32 = 2.0;

pub(crate) fn run(args: Args) -> Result<(), Box<dyn Error>> {
    let device = choose(&args.device, None)?.swap_remove(0);
    println!("{}", device.info());
    if let [large, small] = &args.pictures[..] {
        let (large, small) = (Picture::open(large)?, Picture::open(small)?);
        match find(&device, &spots(&large), &spots(&small))? {
            Some(place) => show(&args.out, &large, &small, place)?,
            None => println!("it is not there"),
        }
        return Ok(());
    }
    let sky = stars(1, 500, [1200.0, 900.0]);
    let (turn, scale, from) = (2.1f32, 0.8, [700.0, 400.0]);
    // From the piece to the sky: rotated, enlarged, and its middle moved.
    let by = [turn.cos() / scale, turn.sin() / scale];
    let truth = move |point: Point| {
        let around = [point[0] - 150.0, point[1] - 150.0];
        let turned = times(by, around);
        [from[0] + turned[0], from[1] + turned[1]]
    };
    let (large, small) = (drawn(1200, 900, &sky), drawn(300, 300, &piece(&sky, by, from)));
    let other = drawn(300, 300, &piece(&stars(2, 500, [1200.0, 900.0]), by, from));
    args.out.show(&large, "sky.png", "a sky")?;
    args.out.show(
        &small,
        "piece.png",
        "a piece of it, turned and made smaller, some stars lost, and others that are none",
    )?;
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
    show(&args.out, &large, &small, place)
}

/// Draws the large picture with a frame around the place, the small one next to it, and the spots that are in both.
fn show(out: &Out, large: &Picture, small: &Picture, place: Place) -> Result<(), Box<dyn Error>> {
    const NIGHT: Colour = [14, 18, 40, 255];
    const FRAME: Colour = [255, 190, 70, 255];
    const THREAD: Colour = [255, 190, 70, 110];
    const SAME_SPOT: Colour = [110, 230, 150, 255];
    const OTHER_SPOT: Colour = [255, 100, 100, 255];
    const GAP: u32 = 60;
    let night = |picture: &Picture| Picture {
        pixels: picture.pixels.iter().map(|&pixel| mixed(NIGHT, pixel, pixel[0].max(pixel[1]).max(pixel[2]))).collect(),
        ..*picture
    };
    let height = large.height.max(small.height + 2 * GAP);
    let mut shown =
        Picture::from_fn(large.width + 2 * GAP + small.width, height, |_, _| mixed(NIGHT, [0, 0, 0, 255], 90));
    let (left, top) = (large.width + GAP, (height - small.height) / 2);
    shown.put(&night(large), 0, 0);
    shown.put(&night(small), left, top);
    let beside = |[x, y]: Point| [x + left as f32, y + top as f32];

    let (wide, tall) = (small.width as f32, small.height as f32);
    let corners = [[0.0, 0.0], [wide, 0.0], [wide, tall], [0.0, tall]];
    for (corner, next) in corners.into_iter().zip(corners.into_iter().cycle().skip(1)) {
        line(&mut shown, [place.of(corner), beside(corner)], 1.0, THREAD);
        line(&mut shown, [place.of(corner), place.of(next)], 2.5, FRAME);
        line(&mut shown, [beside(corner), beside(next)], 2.5, FRAME);
    }
    let there = spots(large);
    for spot in spots(small) {
        let same = there.iter().copied().find(|&at| distance(place.of(spot), at) < SAME);
        ring(&mut shown, beside(spot), 8.0, 1.5, if same.is_some() { SAME_SPOT } else { OTHER_SPOT });
        if let Some(at) = same {
            ring(&mut shown, at, 8.0, 1.5, SAME_SPOT);
        }
    }
    let what =
        "the large picture, the small one, and its place framed; spots of both are ringed in green, others in red";
    out.show(&shown, "find_picture.png", what)
}

/// From the small picture to the large one: rotated and scaled, then moved.
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

/// The place of the small picture in the large one, if more than half of its spots are spots there.
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

    // Every frame of the large picture, and for each query of a square the frame that it belongs to.
    let (mut queries, mut of, mut queried) = (Vec::new(), Vec::new(), Vec::new());
    for &first in large {
        let mut near: Vec<Point> = large.iter().copied().filter(|&to| distance(first, to) >= SHORTEST).collect();
        near.sort_by(|&a, &b| distance(first, a).total_cmp(&distance(first, b)));
        for second in near.into_iter().take(FRAMES) {
            let frame = [first, second];
            for at in large.iter().filter(|&&other| other != first && other != second).filter_map(|&o| within(frame, o))
            {
                for key in squares(at).into_iter().flatten() {
                    queries.push(key);
                    of.push(queried.len());
                }
            }
            queried.push(frame);
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

    let best = most_votes(&of, &answers, queried.len(), frames.len());
    let placed = best.into_iter().map(|(queried_by, frame)| {
        let ([from, from_second], [to, to_second]) = (frames[frame], queried[queried_by]);
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
        queried.len(),
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

/// The pairs of frames with most votes: a frame of the large picture, and one of the small one.
fn most_votes(of: &[usize], answers: &koel::Retrieved, queried: usize, frames: usize) -> Vec<(usize, usize)> {
    let mut best: Vec<(u32, usize, usize)> = Vec::new();
    let mut at = 0;
    for frame in 0..queried {
        let mut votes = vec![0u32; frames];
        while at < of.len() && of[at] == frame {
            answers.of(at).iter().for_each(|&value| votes[value as usize] += 1);
            at += 1;
        }
        best.extend((0..frames).map(|i| (votes[i], frame, i)).max());
    }
    best.sort_unstable_by(|a, b| b.cmp(a));
    best.into_iter().take(TRIED).map(|(_, queried, frame)| (queried, frame)).collect()
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

fn ms(time: Duration) -> f64 {
    1e3 * time.as_secs_f64()
}
