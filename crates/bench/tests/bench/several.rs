//! `--several`: one device, and several together; the command itself checks every answer.

use crate::folder::Folder;

#[test]
fn each_number_of_devices_is_measured() {
    let folder = Folder::new();
    let found = folder.json("--several --device cpu,cpu --n 3000 --queries 5000 --repeats 1 --json");
    assert_eq!(found["devices"], serde_json::json!(["cpu", "cpu"]));
    let rows = found["rows"].as_array().unwrap();
    assert!(rows.iter().all(|row| row["per_second"].as_f64() > Some(0.0)), "{rows:?}");
    let count = |what: &str, count: u64, devices: u64| {
        rows.iter().filter(|row| row["what"] == what && row["count"] == count && row["devices"] == devices).count()
    };
    for devices in [1, 2] {
        for what in ["lookups", "lookups in shards"] {
            assert_eq!(count(what, 5000, devices), 1, "{what} on {devices}");
        }
        for what in ["build", "build partitioned"] {
            assert_eq!(count(what, 3000, devices), 1, "{what} on {devices}");
        }
    }
    assert_eq!(count("build one table", 3000, 1), 1);
    assert_eq!(rows.len(), 9);
}

#[test]
fn tables_are_built_shard_by_shard() {
    let folder = Folder::new();
    let digest = |devices: &str| {
        let found = folder.json(&format!("--several --device {devices} --pieces 20000 --json"));
        let one = &found.as_array().unwrap()[0];
        assert_eq!((one["n"].as_u64(), one["shards"].as_u64()), (Some(20_000), Some(2)));
        one["digest"].clone()
    };
    assert_eq!(digest("cpu,cpu"), digest("cpu,cpu"));
    folder.refused("--pieces 2^20", "--several");
    folder.refused("--several --all", "cannot be used with");
}
