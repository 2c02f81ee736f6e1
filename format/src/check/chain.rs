//! Checks the versions in the store: of each, the header, root, directory and the sections in its own object; of the
//! newest, also its sections in older objects.

use crate::{
    chain::Chain,
    error::{Kind, Result},
    ids::Version,
    layout,
    store::Store,
};

use super::{CheckReport, Finding};

/// Checks every version and returns the newest; `None` if there is none.
pub(super) async fn check(store: &Store, report: &mut CheckReport) -> Result<Option<Version>> {
    let chain = Chain::new(store.clone(), |_| true);
    let versions = chain.versions().await?;
    let Some((newest, _)) = versions.last().copied() else { return Ok(None) };
    for (version, _) in &versions {
        let key = layout::meta_key(*version);
        let loaded = chain.load(*version, None).await;
        if *version == newest {
            // Every page and section of the newest version must be readable.
            let loaded = match loaded {
                Err(e) if e.kind() == Kind::NotFound && chain.newest().await? > Some(newest) => {
                    return Ok(Some(newest));
                }
                other => report.judge(&key, other)?,
            };
            let Some(object) = loaded.flatten() else { continue };
            report.versions += 1;
            report.bytes += object.size_bytes() as u64;
            for (name, at) in object.sections("") {
                let body = chain.bodies(&object, &[(name, at)]).await;
                // A newer version was committed: the objects that this one points into may have been collected.
                if body.as_ref().is_err_and(|e| e.kind() == Kind::NotFound) && chain.newest().await? > Some(newest) {
                    continue;
                }
                if let Some(missing) = report.judge(&layout::meta_key(at.version), body)?.is_none().then_some(name) {
                    report.note(Finding::new(&key, "version has a section that cannot be read").found(missing));
                }
            }
            continue;
        }
        match loaded {
            Ok(Some(object)) => {
                report.versions += 1;
                report.bytes += object.size_bytes() as u64;
                for (name, at) in object.sections("").filter(|(_, at)| at.version == *version) {
                    let body = chain.bodies(&object, &[(name, at)]).await;
                    report.judge(&key, body)?;
                }
            }
            // Collected during the check, or kept only because a newer version points into it.
            Ok(None) => {}
            Err(e) if e.kind() == Kind::NotFound => report.versions += 1,
            Err(e) => drop(report.judge::<()>(&key, Err(e))?),
        }
    }
    Ok(Some(newest))
}
