//! The files of the web console, which are built into the program. Their source is in `server/console`.

/// Each file by its path, compressed with gzip.
static FILES: &[(&str, &[u8])] = &include!(concat!(env!("OUT_DIR"), "/console.rs"));

/// Returns a file by its path, such as `index.html`, compressed with gzip.
pub(crate) fn assets(path: &str) -> Option<&'static [u8]> {
    FILES.iter().find(|(name, _)| *name == path).map(|(_, content)| *content)
}

#[cfg(test)]
mod tests {
    use std::io::Read as _;

    use flate2::read::GzDecoder;

    use super::{FILES, assets};

    #[test]
    fn the_page_names_files_that_exist() {
        let mut page = String::new();
        GzDecoder::new(assets("index.html").unwrap()).read_to_string(&mut page).unwrap();
        let names: Vec<&str> = page.split('"').filter_map(|text| text.strip_prefix("./")).collect();
        assert!(names.iter().any(|name| name.ends_with(".js")) && names.iter().any(|name| name.ends_with(".css")));
        names.iter().for_each(|name| assert!(assets(name).is_some(), "{name}"));
        assert!(assets("nothing").is_none());
    }

    #[test]
    fn every_file_is_that_of_the_source() {
        for (name, content) in FILES {
            let mut found = Vec::new();
            GzDecoder::new(*content).read_to_end(&mut found).unwrap();
            let path = format!("{}/console/dist/{name}", env!("CARGO_MANIFEST_DIR"));
            assert!(found == std::fs::read(path).unwrap(), "{name}");
        }
    }
}
