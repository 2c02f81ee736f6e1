//! The files of the web console, which are built into the program. Their source is in `server/console`.

use std::borrow::Cow;

use rust_embed::Embed;

#[derive(Embed)]
#[folder = "console/dist/"]
struct Files;

/// Returns the content of a file by its path, such as `index.html`.
pub(crate) fn assets(path: &str) -> Option<Cow<'static, [u8]>> {
    Files::get(path).map(|file| file.data)
}

#[cfg(test)]
mod tests {
    use super::assets;

    #[test]
    fn the_page_names_files_that_exist() {
        let page = String::from_utf8(assets("index.html").unwrap().into_owned()).unwrap();
        let names: Vec<&str> = page.split('"').filter_map(|text| text.strip_prefix("./")).collect();
        assert!(names.iter().any(|name| name.ends_with(".js")) && names.iter().any(|name| name.ends_with(".css")));
        names.iter().for_each(|name| assert!(assets(name).is_some(), "{name}"));
        assert!(assets("nothing").is_none());
    }
}
