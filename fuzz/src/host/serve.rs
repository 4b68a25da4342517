//! Connections to the proxy, and what their server does with them: each ends, with the link at the latest.

use std::time::Duration;

use arbitrary::{Result, Unstructured};
use sandbox_docker::supervisor::link::{Connection, Link};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::task::JoinSet;

const PORT: u16 = 3128;
/// More than may be sent before more is granted.
const LONG: usize = 256 * 1024;
/// How long a connection is left alone.
const ALONE: Duration = Duration::from_secs(30);

/// What is done with a connection.
#[derive(Clone, Copy, Debug)]
enum Manner {
  /// Everything that comes goes back; its end is the end.
  Echo,
  /// Much is written, and then all read.
  Write,
  /// Our direction ends at once, and then all is read.
  Read,
  /// It is neither read nor written, and then reset.
  Leave,
  /// It is ended at once.
  Finish,
  /// It is reset at once.
  Reset,
}

/// What is done with one connection, and with the next: in turn.
#[derive(Clone, Copy, Debug)]
pub struct Service([Manner; 2]);

impl Service {
  pub fn read(u: &mut Unstructured<'_>) -> Result<Option<Self>> {
    if u.ratio(1, 2)? {
      return Ok(None);
    }
    let manners =
      [Manner::Echo, Manner::Echo, Manner::Write, Manner::Read, Manner::Leave, Manner::Finish, Manner::Reset];
    Ok(Some(Self([*u.choose(&manners)?, *u.choose(&manners)?])))
  }

  /// Listens, and serves every connection until the link ends, and all of them have.
  pub async fn run(self, link: Link) {
    let Ok(mut connections) = link.listen(PORT).await else { return };
    let (mut serving, mut manners) = (JoinSet::new(), self.0.iter().cycle());
    loop {
      tokio::select! {
        arrived = connections.next() => match (arrived, manners.next()) {
          (Some(connection), Some(manner)) => drop(serving.spawn(manner.serve(connection))),
          _ => break,
        },
        Some(served) = serving.join_next() => served.unwrap(),
      }
    }
    while let Some(served) = serving.join_next().await {
      served.unwrap();
    }
  }
}

impl Manner {
  async fn serve(self, mut connection: Connection) {
    // That it is broken is as good an end as any.
    let served = async {
      match self {
        Self::Echo => {
          let mut room = vec![0; 4096];
          loop {
            match connection.read(&mut room).await? {
              0 => break,
              count => connection.write_all(&room[..count]).await?,
            }
          }
          connection.shutdown().await?;
        }
        Self::Write => {
          connection.write_all(&[b'x'; LONG]).await?;
          connection.shutdown().await?;
          tokio::io::copy(&mut connection, &mut tokio::io::sink()).await?;
        }
        Self::Read => {
          connection.shutdown().await?;
          tokio::io::copy(&mut connection, &mut tokio::io::sink()).await?;
          assert!(connection.write(b"x").await.is_err(), "written behind the end");
        }
        Self::Leave => tokio::time::sleep(ALONE).await,
        Self::Finish | Self::Reset => {}
      }
      std::io::Result::Ok(())
    };
    if served.await.is_ok() && !matches!(self, Self::Leave | Self::Reset) {
      connection.finish();
    }
  }
}
