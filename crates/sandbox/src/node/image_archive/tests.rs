use std::collections::BTreeMap;
use std::io::Read as _;

use super::*;

/// Programs that do nothing, linked with these flags, under these names.
fn programs<const N: usize>(folder: &Path, programs: [(&str, &[&str]); N]) -> [PathBuf; N] {
    let source = folder.join("main.c");
    fs::write(&source, "int main(void) { return 0; }\n").unwrap();
    programs.map(|(name, flags)| {
        let program = folder.join(name);
        let mut command = Command::new("cc");
        command.args(flags).arg("-g").arg("-o").arg(&program);
        assert!(command.arg(&source).status().unwrap().success());
        program
    })
}

type Entries = BTreeMap<String, (tar::Header, Vec<u8>)>;

/// Headers and contents of a tar archive by path.
fn entries(bytes: &[u8]) -> Entries {
    let mut archive = tar::Archive::new(bytes);
    let mut entries = BTreeMap::new();
    for entry in archive.entries().unwrap() {
        let mut entry = entry.unwrap();
        let path = entry.path().unwrap().to_str().unwrap().to_owned();
        let mut content = Vec::new();
        entry.read_to_end(&mut content).unwrap();
        let again = entries.insert(path, (entry.header().clone(), content));
        assert!(again.is_none(), "each path is there once");
    }
    entries
}

fn json_at(entries: &Entries, path: &str) -> Value {
    serde_json::from_slice(&entries[path].1).unwrap()
}

/// The blob of a descriptor, whose size must be right.
fn blob<'a>(entries: &'a Entries, descriptor: &Value) -> &'a [u8] {
    let digest = descriptor["digest"].as_str().unwrap();
    let blob = &entries[&digest.replace("sha256:", "blobs/sha256/")].1;
    assert_eq!(descriptor["size"], blob.len());
    blob
}

fn image(name: &str, program: &Path) -> Image {
    Image::of_program(name, program).unwrap()
}

#[test]
fn an_archive_has_the_images_and_one_layer_of_libraries() {
    let folder = tempfile::tempdir().unwrap();
    let archive = folder.path().join("archive.tar");
    let [one, two] = programs(folder.path(), [("one", &[]), ("two", &["-DTWO", "-lm"])]);
    let images = [
        image("docker.io/plimsoll/one:dev", &one),
        image("localhost:5000/one", &one),
        image("docker.io/plimsoll/two:dev", &two),
    ];
    write(&images, &archive).unwrap();
    let bytes = fs::read(&archive).unwrap();
    let entries = entries(&bytes);
    for (path, (header, content)) in &entries {
        assert_eq!(header.mtime().unwrap(), 0, "{path}");
        if let Some(digest) = path.strip_prefix("blobs/sha256/") {
            let digits = Sha256::digest(content);
            let digits = digits.iter().map(|byte| format!("{byte:02x}"));
            assert_eq!(digits.collect::<String>(), digest);
        }
    }
    let layout = json_at(&entries, "oci-layout");
    assert_eq!(layout, json!({"imageLayoutVersion": "1.0.0"}));
    let index = json_at(&entries, "index.json");
    let manifests = index["manifests"].as_array().unwrap();
    let found: Vec<_> = manifests
        .iter()
        .map(|manifest| {
            let annotations = &manifest["annotations"];
            let name = annotations["io.containerd.image.name"].as_str().unwrap();
            let tag = annotations["org.opencontainers.image.ref.name"].as_str();
            (name, tag.unwrap())
        })
        .collect();
    let expected = [
        ("docker.io/plimsoll/one:dev", "dev"),
        ("localhost:5000/one", "latest"),
        ("docker.io/plimsoll/two:dev", "dev"),
    ];
    assert_eq!(found, expected);
    assert_eq!(manifests[0]["digest"], manifests[1]["digest"]);
    // Two layers of programs, one of libraries, two configurations, two manifests.
    assert_eq!(entries.len(), 2 + 7);
    let mut shared = BTreeSet::new();
    for (manifest, name) in [(&manifests[0], "one"), (&manifests[2], "two")] {
        let manifest: Value = serde_json::from_slice(blob(&entries, manifest)).unwrap();
        shared.insert(manifest["layers"][0]["digest"].to_string());
        check_image(&entries, &manifest, name, &libraries(&images).unwrap());
    }
    assert_eq!(shared.len(), 1);
}

fn check_image(all: &Entries, manifest: &Value, name: &str, libraries: &BTreeSet<PathBuf>) {
    let configuration = blob(all, &manifest["config"]);
    let configuration: Value = serde_json::from_slice(configuration).unwrap();
    assert_eq!(
        configuration["config"],
        json!({"Entrypoint": [format!("/{name}")], "Cmd": [], "User": "65532:65532"})
    );
    let layers = manifest["layers"].as_array().unwrap();
    let digests: Vec<_> = layers.iter().map(|layer| layer["digest"].clone()).collect();
    assert_eq!(configuration["rootfs"]["diff_ids"], json!(digests));
    let [shared, own] = [0, 1].map(|layer| entries(blob(all, &layers[layer])));
    for library in libraries {
        let (header, content) = &shared[library.strip_prefix("/").unwrap().to_str().unwrap()];
        assert_eq!(content, &fs::read(library).unwrap());
        assert_eq!(header.mode().unwrap(), 0o755);
    }
    let files = |entries: &Entries| {
        entries
            .values()
            .filter(|(h, _)| h.entry_type().is_file())
            .count()
    };
    assert_eq!(files(&shared), libraries.len());
    let (path, (header, content)) = own.first_key_value().unwrap();
    assert_eq!((own.len(), &**path), (1, name));
    assert_eq!(header.mode().unwrap(), 0o755);
    assert_eq!(header.uid().unwrap(), 65532);
    assert!(content.starts_with(b"\x7fELF"));
}

#[test]
fn a_static_program_has_no_layer_of_libraries() {
    let folder = tempfile::tempdir().unwrap();
    let archive = folder.path().join("archive.tar");
    let [program] = programs(
        folder.path(),
        [("alone", &["-static", "-nostdlib", "-Wl,-e,main"])],
    );
    write(&[image("alone:dev", &program)], &archive).unwrap();
    let entries = entries(&fs::read(&archive).unwrap());
    let index = json_at(&entries, "index.json");
    let manifest = blob(&entries, &index["manifests"][0]);
    let manifest: Value = serde_json::from_slice(manifest).unwrap();
    assert_eq!(manifest["layers"].as_array().unwrap().len(), 1);
}

#[test]
fn the_same_programs_are_packed_once_and_give_the_same_bytes() {
    let folder = tempfile::tempdir().unwrap();
    let cache = folder.path().join("cache");
    let [program] = programs(folder.path(), [("program", &[])]);
    let images = [image("program:dev", &program)];
    let first = cached(&images, &cache).unwrap();
    let bytes = fs::read(&first).unwrap();
    fs::write(&first, "not written again").unwrap();
    assert_eq!(cached(&images, &cache).unwrap(), first);
    assert_eq!(fs::read(&first).unwrap(), b"not written again");
    // Later than the first build, with the same content.
    let later = SystemTime::now() + std::time::Duration::from_mins(1);
    File::open(&program).unwrap().set_modified(later).unwrap();
    let second = cached(&images, &cache).unwrap();
    assert_ne!(second, first);
    assert!(fs::read(&second).unwrap() == bytes);
    assert_eq!(fs::read_dir(&cache).unwrap().count(), 2);
}

#[test]
fn the_oldest_archives_are_removed() {
    let folder = tempfile::tempdir().unwrap();
    for age in 0..6_u64 {
        let file = File::create(folder.path().join(format!("{PREFIX}{age}.tar"))).unwrap();
        let time = SystemTime::UNIX_EPOCH + std::time::Duration::from_secs(1000 - age);
        file.set_modified(time).unwrap();
    }
    File::create(folder.path().join("other")).unwrap();
    remove_oldest(folder.path()).unwrap();
    let left = fs::read_dir(folder.path()).unwrap();
    let mut left: Vec<_> = left.map(|entry| entry.unwrap().file_name()).collect();
    left.sort();
    let expected = [
        "images-0.tar",
        "images-1.tar",
        "images-2.tar",
        "images-3.tar",
        "other",
    ];
    assert_eq!(left, expected);
}
