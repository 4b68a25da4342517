//! The two directions of an accepted `CONNECT`.

use bytes::BytesMut;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::sync::watch;

use super::gauge::{Cut, Gauge, Way};
use super::tls::{Answer, Answering, Following, Sniffed, Sniffer};
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
  // What the server's first message was, where somebody waits for it.
  let (answered, answer) = watch::channel(None);
  let up = async {
    open(&mut client_in, &mut server_out, early, sniffer, answer, gauge).await?;
    pump(&mut client_in, &mut server_out, gauge, Way::Up).await
  };
  let down = async {
    client_out.write_all(ESTABLISHED).await?;
    client_out.flush().await?;
    read_answer(&mut server_in, &mut client_out, answered, gauge).await?;
    pump(&mut server_in, &mut client_out, gauge, Way::Down).await
  };
  tokio::select! {
    both = async { tokio::try_join!(up, down) } => both.map(|_| ()),
    cut = gauge.over() => Err(cut),
  }
}

/// Holds back the client's first bytes until the sniffer lets them pass, and a second hello like the first. Returns early if
/// the client ends before that.
async fn open<R, W>(
  from: &mut R,
  to: &mut W,
  early: BytesMut,
  mut sniffer: Sniffer<'_>,
  answer: watch::Receiver<Option<Answer>>,
  gauge: &Gauge<'_>,
) -> Result<(), Cut>
where
  R: AsyncRead + Unpin,
  W: AsyncWrite + Unpin,
{
  let Some(passed) = hold(from, early, &mut sniffer, gauge).await? else { return Ok(()) };
  let Some(end) = sniffer.hello_end() else { return gauge.send(to, &passed, Way::Up).await };
  let (hello, behind) = passed.split_at_checked(end).unwrap_or((&passed, &[]));
  gauge.send(to, hello, Way::Up).await?;
  let Some(second) = follow(from, to, behind.into(), answer, gauge).await? else { return Ok(()) };
  let mut sniffer = sniffer.again();
  match hold(from, second, &mut sniffer, gauge).await? {
    Some(passed) => gauge.send(to, &passed, Way::Up).await,
    None => Ok(()),
  }
}

/// Reads until the sniffer lets pass what came; `None` where the client ended without a byte.
async fn hold<R>(
  from: &mut R,
  early: BytesMut,
  sniffer: &mut Sniffer<'_>,
  gauge: &Gauge<'_>,
) -> Result<Option<Vec<u8>>, Cut>
where
  R: AsyncRead + Unpin,
{
  let mut bytes = early;
  loop {
    if let Sniffed::Pass(held) = sniffer.push(&bytes).map_err(Cut::Hello)? {
      return Ok(Some(held));
    }
    if !read_next(from, &mut bytes, gauge).await? {
      // Half of a hello goes nowhere; an end without a byte is passed on by the pump, which reads it again.
      return if sniffer.is_holding() { Err(Cut::Broken) } else { Ok(None) };
    }
  }
}

/// Passes on what comes behind a hello, of which `bytes` is there already, until it is known that no second one follows:
/// `None`. Otherwise where that begins.
async fn follow<R, W>(
  from: &mut R,
  to: &mut W,
  mut bytes: BytesMut,
  mut answer: watch::Receiver<Option<Answer>>,
  gauge: &Gauge<'_>,
) -> Result<Option<BytesMut>, Cut>
where
  R: AsyncRead + Unpin,
  W: AsyncWrite + Unpin,
{
  let mut following = Following::default();
  loop {
    if *answer.borrow() == Some(Answer::Other) {
      gauge.send(to, &bytes, Way::Up).await?;
      return Ok(None);
    }
    let record = following.push(&bytes).map_err(Cut::Hello)?;
    let held = record.map(|at| bytes.split_off(at));
    gauge.send(to, &bytes, Way::Up).await?;
    if let Some(held) = held {
      // A server that is gone has said nothing, and hears nothing.
      let told = answer.wait_for(Option::is_some).await.map_or(Some(Answer::Other), |told| *told);
      if told == Some(Answer::Retry) {
        return Ok(Some(held));
      }
      gauge.send(to, &held, Way::Up).await?;
      return Ok(None);
    }
    if !read_next(from, &mut bytes, gauge).await? {
      return Ok(None);
    }
  }
}

/// Passes on what the server says until it is known what its first message is, and tells that.
async fn read_answer<R, W>(
  from: &mut R,
  to: &mut W,
  answered: watch::Sender<Option<Answer>>,
  gauge: &Gauge<'_>,
) -> Result<(), Cut>
where
  R: AsyncRead + Unpin,
  W: AsyncWrite + Unpin,
{
  let mut answering = Answering::default();
  let mut bytes = BytesMut::new();
  while read_next(from, &mut bytes, gauge).await? {
    let answer = answering.push(&bytes);
    if answer.is_some() {
      // Before the client can have it, and say hello again.
      answered.send_replace(answer);
    }
    gauge.send(to, &bytes, Way::Down).await?;
    if answer.is_some() {
      return Ok(());
    }
  }
  Ok(())
}

/// Reads what comes next, in place of `bytes`; false at the end.
async fn read_next<R>(from: &mut R, bytes: &mut BytesMut, gauge: &Gauge<'_>) -> Result<bool, Cut>
where
  R: AsyncRead + Unpin,
{
  bytes.clear();
  bytes.reserve(HELLO_READ_BYTES);
  if from.read_buf(bytes).await? == 0 {
    return Ok(false);
  }
  gauge.touch();
  Ok(true)
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
