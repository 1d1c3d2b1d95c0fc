//! A dataset in a bucket of an S3 service, with the same names as in a directory.
//!
//! Objects cannot be renamed. A run exists once it has a manifest, which is written last. The remains of a
//! killed packer have none, and are reported as incomplete.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::Read;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use datafusion::execution::object_store::ObjectStoreUrl;
use futures::{StreamExt, TryStreamExt, stream};
use object_store::aws::AmazonS3Builder;
use object_store::path::Path as StorePath;
use object_store::{
    Error, ObjectMeta, ObjectStore, ObjectStoreExt, PutMode, PutOptions, RetryConfig, WriteMultipart,
};

use crate::dataset::{self, MANIFEST, Member, Members, PARTITIONS};
use crate::error::QueryError;

/// Prefix of a bucket's name.
pub const SCHEME: &str = "s3://";

/// Longer files are written in parts of this size (bytes; S3 requires at least 5 MiB), with this number of
/// parts in parallel.
const PIECE_BYTES: usize = 8 << 20;
const PIECES_AT_ONCE: usize = 4;
/// Number of manifests read in parallel.
const MANIFESTS_AT_ONCE: usize = 16;
/// Maximum retries and time of a request. Short, so that a wrong endpoint is reported soon.
const RETRIES: usize = 3;
const RETRIES_LAST: Duration = Duration::from_secs(20);
/// Environment variables with the server's address (docs.rs/object_store, `AmazonS3ConfigKey`).
const ENDPOINTS: [&str; 3] = ["AWS_ENDPOINT_URL_S3", "AWS_ENDPOINT_URL", "AWS_ENDPOINT"];

/// A place in a bucket.
#[derive(Clone, Debug)]
pub struct Bucket {
    /// `s3://BUCKET/PREFIX`.
    named: String,
    url: ObjectStoreUrl,
    prefix: StorePath,
    store: Arc<dyn ObjectStore>,
}

impl Bucket {
    /// Opens a bucket. `named` is `s3://BUCKET/PREFIX`. Server, region and keys come from the environment, as
    /// `AWS_...`. Sends no request yet.
    ///
    /// # Errors
    /// If the name or the environment is invalid.
    pub fn open(named: &str) -> Result<Bucket, QueryError> {
        let named = named.trim_end_matches('/');
        let (bucket, prefix) = match named.strip_prefix(SCHEME).unwrap_or_default().split_once('/') {
            Some(both) => both,
            None => (named.strip_prefix(SCHEME).unwrap_or_default(), ""),
        };
        let refused = |reason: String| QueryError::Bucket { place: named.to_owned(), reason };
        if bucket.is_empty() {
            return Err(refused("wanted is s3://BUCKET/PREFIX".to_owned()));
        }
        let plain = |name: &&str| std::env::var(name).is_ok_and(|url| url.starts_with("http://"));
        let retry =
            RetryConfig { max_retries: RETRIES, retry_timeout: RETRIES_LAST, ..RetryConfig::default() };
        let mut builder = AmazonS3Builder::from_env().with_bucket_name(bucket).with_retry(retry);
        if ENDPOINTS.iter().any(plain) {
            builder = builder.with_allow_http(true);
        }
        let store = builder.build().map_err(|error| refused(error.to_string()))?;
        let url =
            ObjectStoreUrl::parse(format!("{SCHEME}{bucket}")).map_err(|error| refused(error.to_string()))?;
        let prefix = StorePath::parse(prefix).map_err(|error| refused(error.to_string()))?;
        Ok(Bucket { named: named.to_owned(), url, prefix, store: Arc::new(store) })
    }

    /// How a run is named.
    pub(crate) fn place(&self, parts: &[String; 3]) -> String {
        let parts = PARTITIONS.iter().zip(parts).map(|(name, value)| format!("/{name}={value}"));
        parts.fold(self.named.clone(), |place, part| place + &part)
    }

    /// Whether this run is there.
    pub(crate) async fn has(&self, parts: &[String; 3]) -> Result<bool, QueryError> {
        match self.store.head(&self.object(parts, MANIFEST)).await {
            Ok(_) => Ok(true),
            Err(Error::NotFound { .. }) => Ok(false),
            Err(error) => Err(self.refused(&error)),
        }
    }

    /// Puts the files of a run there that was made in `aside`. Whether it was not there already, by another writer.
    pub(crate) async fn put(&self, parts: &[String; 3], aside: &Path) -> Result<bool, QueryError> {
        for entry in fs::read_dir(aside)? {
            let entry = entry?;
            let name = entry.file_name().to_string_lossy().into_owned();
            if name != MANIFEST {
                let put = self.put_file(&entry.path(), self.object(parts, &name)).await?;
                put.map_err(|error| self.refused(&error))?;
            }
        }
        let manifest = fs::read(aside.join(MANIFEST))?;
        let only_new = PutOptions { mode: PutMode::Create, ..PutOptions::default() };
        match self.store.put_opts(&self.object(parts, MANIFEST), manifest.into(), only_new).await {
            Ok(_) => Ok(true),
            Err(Error::AlreadyExists { .. } | Error::Precondition { .. }) => Ok(false),
            Err(error) => Err(self.refused(&error)),
        }
    }

    /// The outer error is of the file, the inner one of the bucket.
    async fn put_file(&self, file: &Path, object: StorePath) -> std::io::Result<Result<(), Error>> {
        let mut file = File::open(file)?;
        let mut piece = Vec::new();
        file.by_ref().take(PIECE_BYTES as u64).read_to_end(&mut piece)?;
        if piece.len() < PIECE_BYTES {
            return Ok(self.store.put(&object, piece.into()).await.map(drop));
        }
        let mut pieces = match self.store.put_multipart(&object).await {
            Ok(upload) => WriteMultipart::new_with_chunk_size(upload, PIECE_BYTES),
            Err(error) => return Ok(Err(error)),
        };
        while !piece.is_empty() {
            if let Err(error) = pieces.wait_for_capacity(PIECES_AT_ONCE).await {
                let _ = pieces.abort().await;
                return Ok(Err(error));
            }
            pieces.write(&piece);
            piece.clear();
            if let Err(error) = file.by_ref().take(PIECE_BYTES as u64).read_to_end(&mut piece) {
                let _ = pieces.abort().await;
                return Err(error);
            }
        }
        Ok(pieces.finish().await.map(drop))
    }

    /// The runs that are there.
    pub(crate) async fn members(&self) -> Result<Members, QueryError> {
        let prefix = (!self.prefix.as_ref().is_empty()).then_some(&self.prefix);
        let objects: Vec<ObjectMeta> =
            self.store.list(prefix).try_collect().await.map_err(|error| self.refused(&error))?;
        let mut runs: BTreeMap<[String; 3], BTreeMap<String, ObjectMeta>> = BTreeMap::new();
        for object in objects {
            if let Some((parts, name)) = self.part_of(&object.location) {
                runs.entry(parts).or_default().insert(name, object);
            }
        }
        let versions = stream::iter(runs).map(|(parts, files)| async {
            let version = self.version(&files).await;
            (parts, files, version)
        });
        let mut versions = versions.buffered(MANIFESTS_AT_ONCE);
        // A client keeps to the runtime in which it was used first.
        let store = Bucket::open(&self.named)?.store;
        let mut members = Members { at: self.url.clone(), store: Some(store), ..Members::default() };
        while let Some((parts, files, version)) = versions.next().await {
            match version {
                Ok(()) => members.runs.push(Member::of_objects(parts, files)),
                Err(why) => members.refused.push(format!("{}: {why}", self.place(&parts))),
            }
        }
        Ok(members)
    }

    /// The run that an object belongs to, and its name there.
    fn part_of(&self, object: &StorePath) -> Option<([String; 3], String)> {
        let mut names = object.prefix_match(&self.prefix)?.map(|part| part.as_ref().to_owned());
        let mut value =
            |partition: &str| Some(names.next()?.strip_prefix(partition)?.strip_prefix('=')?.to_owned());
        let parts = [value(PARTITIONS[0])?, value(PARTITIONS[1])?, value(PARTITIONS[2])?];
        let name = names.next()?;
        names.next().is_none().then_some((parts, name))
    }

    async fn version(&self, files: &BTreeMap<String, ObjectMeta>) -> Result<(), String> {
        let manifest = files.get(MANIFEST);
        let manifest = manifest.ok_or_else(|| {
            format!("it has no {MANIFEST}: it is being added, or the process that added it was killed")
        })?;
        let unread = |error: Error| format!("{MANIFEST} cannot be read ({error})");
        let text = self.store.get(&manifest.location).await.map_err(unread)?.bytes().await.map_err(unread)?;
        dataset::version(&text)
    }

    fn object(&self, parts: &[String; 3], name: &str) -> StorePath {
        let parts = PARTITIONS.iter().zip(parts).map(|(partition, value)| format!("{partition}={value}"));
        parts.fold(self.prefix.clone(), |path, part| path.join(part)).join(name)
    }

    fn refused(&self, error: &Error) -> QueryError {
        let role = match std::env::var_os("AWS_ACCESS_KEY_ID") {
            Some(_) => "",
            None => " (AWS_ACCESS_KEY_ID is not set: the machine's own role was asked for)",
        };
        QueryError::Bucket { place: self.named.clone(), reason: format!("{error}{role}") }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn objects_are_distinguished_by_their_names() {
        let bucket = Bucket::open("s3://fleet/of/mine/").unwrap();
        let parts = ["web-1", "2026-11-22", "server-1"].map(str::to_owned);
        assert_eq!(bucket.place(&parts), "s3://fleet/of/mine/host=web-1/date=2026-11-22/run=server-1");
        let object = bucket.object(&parts, "locks.parquet");
        assert_eq!(object.as_ref(), "of/mine/host=web-1/date=2026-11-22/run=server-1/locks.parquet");
        assert_eq!(bucket.part_of(&object), Some((parts, "locks.parquet".to_owned())));
        for other in ["of/mine/host=a/b", "of/mine/readme", "else", "of/mine/host=a/date=b/run=c/d/e"] {
            assert_eq!(bucket.part_of(&StorePath::from(other)), None, "{other}");
        }
    }

    /// One piece, many pieces, and exactly as long as one.
    #[test]
    fn files_of_any_length_come_as_they_are() {
        let directory = std::env::temp_dir().join(format!("holdup-bucket-{}", std::process::id()));
        fs::create_dir_all(&directory).unwrap();
        let lengths = [0, 1_000, PIECE_BYTES, PIECE_BYTES * 2 + 77];
        for length in lengths {
            let bytes: Vec<u8> = (0..length).map(|at| (at % 251) as u8).collect();
            fs::write(directory.join(format!("{length}.parquet")), bytes).unwrap();
        }
        fs::write(directory.join(MANIFEST), "{\"dataset\": 1}").unwrap();
        let parts = ["a", "b", "c"].map(str::to_owned);
        let store: Arc<dyn ObjectStore> = Arc::new(object_store::memory::InMemory::new());
        let bucket = Bucket { store: Arc::clone(&store), ..Bucket::open("s3://fleet/x").unwrap() };
        let aside = directory.clone();
        let work = async move {
            assert!(!bucket.has(&parts).await?);
            assert!(bucket.put(&parts, &aside).await?);
            assert!(bucket.has(&parts).await?);
            assert!(!bucket.put(&parts, &aside).await?, "the manifest is another writer's");
            for length in lengths {
                let object = bucket.object(&parts, &format!("{length}.parquet"));
                let there = store.get(&object).await.unwrap().bytes().await.unwrap();
                assert!(there == fs::read(aside.join(format!("{length}.parquet")))?, "{length}");
            }
            let members = bucket.members().await?;
            assert_eq!((members.runs.len(), members.refused), (1, Vec::new()));
            Ok(())
        };
        let mut runner = crate::run::Runner::new(2).unwrap();
        let done = runner.run(work);
        fs::remove_dir_all(&directory).unwrap();
        done.unwrap();
    }

    #[test]
    fn a_bucket_without_a_name_is_refused() {
        for name in ["s3://", "s3:///prefix"] {
            let error = Bucket::open(name).unwrap_err().to_string();
            assert!(error.contains("s3://BUCKET/PREFIX"), "{error}");
        }
    }
}
