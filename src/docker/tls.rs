//! TLS to an engine, as Docker's command line has it: the engine proves itself by a certificate of a known CA for the name
//! that was asked for, and so does this client where it has one. The files are `ca.pem`, `cert.pem` and `key.pem` of one
//! folder. There is no way to leave the proof out: whoever answers in an engine's place has all that agents do.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;
use tokio_rustls::rustls::crypto::ring;
use tokio_rustls::rustls::pki_types::pem::PemObject;
use tokio_rustls::rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use tokio_rustls::rustls::{AlertDescription, CertificateError, ClientConfig, RootCertStore};

use super::files;
use crate::error::{Error, Result, fail};

/// What Docker's rustls errors are called here.
pub use tokio_rustls::rustls::Error as TlsError;

const CA: &str = "ca.pem";
const CERTIFICATE: &str = "cert.pem";
const KEY: &str = "key.pem";

/// Whom to trust, and who we are.
#[derive(Clone)]
pub struct Tls {
  config: Arc<ClientConfig>,
  folder: PathBuf,
  has_certificate: bool,
}

impl Tls {
  /// Reads the files of a folder; `from` says what named it. `CONFIG_INVALID` names the file that is missing or wrong.
  pub async fn read(folder: &Path, from: &str) -> Result<Self> {
    let material = Material { folder, from };
    let builder = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()))
      .with_safe_default_protocol_versions()
      .map_err(|error| fail!(Internal, "TLS has no protocol versions.").with_source(error))?
      .with_root_certificates(material.authorities().await?);
    let identity = material.identity().await?;
    let has_certificate = identity.is_some();
    let config = match identity {
      None => builder.with_no_client_auth(),
      Some((chain, key)) => builder
        .with_client_auth_cert(chain, key)
        .map_err(|error| material.wrong(KEY, &format!("{error}; is it the key of {CERTIFICATE}?")))?,
    };
    Ok(Self { config: Arc::new(config), folder: folder.to_owned(), has_certificate })
  }

  /// Makes a connection one that both ends know each other on.
  pub async fn handshake(&self, host: &str, stream: TcpStream) -> std::io::Result<TlsStream<TcpStream>> {
    let name = ServerName::try_from(host.to_owned()).map_err(std::io::Error::other)?;
    TlsConnector::from(Arc::clone(&self.config)).connect(name, stream).await
  }

  /// What a failure of TLS means to whoever runs this; `engine` is its address, `host` the name in it.
  pub fn error(&self, engine: &str, host: &str, error: &TlsError) -> Error {
    let (folder, refused) = (self.folder.display(), format!("The Docker engine at {engine} was not trusted"));
    let message = match error {
      TlsError::InvalidCertificate(why) => format!("{refused}: {}", self.distrust(host, why)),
      TlsError::AlertReceived(alert) if is_of_client_certificate(*alert) => {
        let what = if self.has_certificate {
          format!("refused the certificate {folder}/{CERTIFICATE} of this client")
        } else {
          format!("wants a certificate of its clients, and there is no {folder}/{CERTIFICATE}")
        };
        format!(
          "The Docker engine at {engine} {what} ({alert:?}). Put one there, with its key in {KEY}, that the engine's own CA (its --tlscacert) has signed for clients and that has not expired."
        )
      }
      TlsError::InvalidMessage(_) => format!(
        "What listens at {engine} does not speak TLS ({error}). Set DOCKER_HOST to the engine's TLS port, usually 2376; a port without TLS is used where DOCKER_TLS_VERIFY and DOCKER_CERT_PATH are not set."
      ),
      _ => format!("TLS with the Docker engine at {engine} failed: {error}."),
    };
    fail!(DockerUnavailable, "{message}")
  }

  fn distrust(&self, host: &str, why: &CertificateError) -> String {
    let ca = self.folder.join(CA);
    let ca = ca.display();
    match why {
      CertificateError::Expired | CertificateError::ExpiredContext { .. } => {
        "its certificate has expired. Give the engine a new one; if it has not, set the clock of this machine.".to_owned()
      }
      CertificateError::NotValidYet | CertificateError::NotValidYetContext { .. } => {
        "its certificate is not valid yet. Set the clock of this machine, or of the one that made it.".to_owned()
      }
      CertificateError::NotValidForName | CertificateError::NotValidForNameContext { .. } => format!(
        "its certificate is not for {host:?} ({why}). Name the engine as its certificate does, or give it one with this name or address as a subjectAltName."
      ),
      CertificateError::UnknownIssuer | CertificateError::BadSignature => format!(
        "no CA in {ca} signed its certificate. Put the CA of this engine there, or set DOCKER_CERT_PATH to the folder that has it; where you do not know why it is another, somebody may be in between."
      ),
      why => format!("its certificate is wrong ({why}). Give the engine one for servers."),
    }
  }
}

/// What an engine answers to a client whose certificate it does not take (RFC 8446, section 6.2).
const fn is_of_client_certificate(alert: AlertDescription) -> bool {
  matches!(
    alert,
    AlertDescription::HandshakeFailure
      | AlertDescription::BadCertificate
      | AlertDescription::UnsupportedCertificate
      | AlertDescription::CertificateRevoked
      | AlertDescription::CertificateExpired
      | AlertDescription::CertificateUnknown
      | AlertDescription::UnknownCA
      | AlertDescription::AccessDenied
      | AlertDescription::DecryptError
      | AlertDescription::CertificateRequired
  )
}

struct Material<'a> {
  folder: &'a Path,
  from: &'a str,
}

type Identity = (Vec<CertificateDer<'static>>, PrivateKeyDer<'static>);

impl Material<'_> {
  async fn authorities(&self) -> Result<RootCertStore> {
    let pem =
      self.file(CA).await?.ok_or_else(|| self.absent(CA, "the CA that signed the engine's certificate"))?;
    let mut roots = RootCertStore::empty();
    for certificate in self.certificates(CA, &pem)? {
      roots.add(certificate).map_err(|error| self.wrong(CA, &error))?;
    }
    Ok(roots)
  }

  /// A client needs no certificate where the engine asks for none; half of one is a slip.
  async fn identity(&self) -> Result<Option<Identity>> {
    let (certificate, key) = (self.file(CERTIFICATE).await?, self.file(KEY).await?);
    match (certificate, key) {
      (None, None) => Ok(None),
      (Some(_), None) => Err(self.absent(KEY, &format!("the key of {CERTIFICATE}"))),
      (None, Some(_)) => Err(self.absent(CERTIFICATE, &format!("the certificate of {KEY}"))),
      (Some(certificate), Some(key)) => {
        let key = PrivateKeyDer::from_pem_slice(&key).map_err(|error| {
          self.wrong(KEY, &format!("{error}; it may be a private key in PEM without a passphrase"))
        })?;
        Ok(Some((self.certificates(CERTIFICATE, &certificate)?, key)))
      }
    }
  }

  async fn file(&self, name: &str) -> Result<Option<Vec<u8>>> {
    files::read(&self.folder.join(name)).await.map_err(|error| self.wrong(name, &error))
  }

  fn certificates(&self, name: &str, pem: &[u8]) -> Result<Vec<CertificateDer<'static>>> {
    let found: std::result::Result<Vec<_>, _> = CertificateDer::pem_slice_iter(pem).collect();
    match found {
      Ok(found) if !found.is_empty() => Ok(found),
      Ok(_none) => Err(self.wrong(name, &"it holds no certificate in PEM")),
      Err(error) => Err(self.wrong(name, &error)),
    }
  }

  fn absent(&self, name: &str, what: &str) -> Error {
    fail!(
      ConfigInvalid,
      "There is no {}, {what}. TLS to the Docker engine needs it; the folder is that of {}.",
      self.folder.join(name).display(),
      self.from
    )
  }

  fn wrong(&self, name: &str, why: &dyn std::fmt::Display) -> Error {
    fail!(
      ConfigInvalid,
      "{} cannot be used for TLS to the Docker engine: {why}. The folder is that of {}.",
      self.folder.join(name).display(),
      self.from
    )
  }
}
