//! The two directions of an accepted `CONNECT`.

use bytes::BytesMut;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::TcpStream;

use super::gauge::{Cut, Gauge, Way};
use super::tls::{Sniffed, Sniffer};
use crate::limits::PROXY_BUFFER_BYTES;

const ESTABLISHED: &[u8] = b"HTTP/1.1 200 Connection Established\r\n\r\n";
/// Room for one read while bytes are held back: most hellos fit.
const HELLO_READ_BYTES: usize = 4 * 1024;

/// Tells the client that the tunnel stands and moves bytes until both sides have ended theirs. `early` is what the client
/// sent behind its head.
pub(super) async fn run<S>(
  client: &mut S,
  server: &mut TcpStream,
  early: BytesMut,
  sniffer: Sniffer<'_>,
  gauge: &Gauge<'_>,
) -> Result<(), Cut>
where
  S: AsyncRead + AsyncWrite + Unpin,
{
  let (mut client_in, mut client_out) = tokio::io::split(client);
  let (mut server_in, mut server_out) = server.split();
  let up = async {
    open(&mut client_in, &mut server_out, early, sniffer, gauge).await?;
    pump(&mut client_in, &mut server_out, gauge, Way::Up).await
  };
  let down = async {
    client_out.write_all(ESTABLISHED).await?;
    client_out.flush().await?;
    pump(&mut server_in, &mut client_out, gauge, Way::Down).await
  };
  tokio::select! {
    both = async { tokio::try_join!(up, down) } => both.map(|_| ()),
    cut = gauge.over() => Err(cut),
  }
}

/// Holds back the client's first bytes until the sniffer lets them pass. Returns early if the client ends before that.
async fn open<R, W>(
  from: &mut R,
  to: &mut W,
  early: BytesMut,
  mut sniffer: Sniffer<'_>,
  gauge: &Gauge<'_>,
) -> Result<(), Cut>
where
  R: AsyncRead + Unpin,
  W: AsyncWrite + Unpin,
{
  let mut bytes = early;
  loop {
    if let Sniffed::Pass(held) = sniffer.push(&bytes).map_err(Cut::Hello)? {
      return gauge.send(to, &held, Way::Up).await;
    }
    bytes.clear();
    bytes.reserve(HELLO_READ_BYTES);
    if from.read_buf(&mut bytes).await? == 0 {
      // Half of a hello goes nowhere; an end without a byte is passed on by the pump, which reads it again.
      return if sniffer.is_holding() { Err(Cut::Broken) } else { Ok(()) };
    }
    gauge.touch();
  }
}

/// Moves bytes until `from` ends, then ends `to`. Reads no more before all was written.
async fn pump<R, W>(from: &mut R, to: &mut W, gauge: &Gauge<'_>, way: Way) -> Result<(), Cut>
where
  R: AsyncRead + Unpin,
  W: AsyncWrite + Unpin,
{
  let mut buffer = vec![0; PROXY_BUFFER_BYTES];
  loop {
    let read = from.read(&mut buffer).await?;
    if read == 0 {
      return Ok(to.shutdown().await?);
    }
    gauge.touch();
    gauge.send(to, buffer.get(..read).unwrap_or_default(), way).await?;
  }
}
