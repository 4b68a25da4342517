//! The table of what goes on, and of replies that nobody has acknowledged.

use std::time::Instant;

use super::channels::Channels;
use super::command::{Command, Launcher, Processes};
use super::files::{Workspace, listing, packing, reading, unpacking, writing};
use super::link::Link;
use super::memory::MemoryKills;
use super::self_test::Attack;
use super::system::poll::PollSet;
use crate::supervisor::wire::{
  ActiveOperation, CommandEnd, Credit, Data, Failed, Failure, How, Kind, MAX_ACTIVE, MAX_RETAINED, Reply,
  Stream, ToHost, ToInside, is_channel,
};

/// What an operation works with.
pub struct Context<'a> {
  /// Where it speaks.
  pub link: &'a mut Link,
  /// The files.
  pub workspace: &'a Workspace,
  /// How processes are made.
  pub launcher: &'a Launcher,
  /// The processes there are.
  pub processes: &'a mut Processes,
  /// Connections to the proxy.
  pub channels: &'a mut Channels,
  /// How many of them the kernel killed for memory.
  pub memory_kills: &'a MemoryKills,
  /// The time of this turn.
  pub now: Instant,
}

/// What a turn of an operation came to. The larger one counts when there are two.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
  /// Nothing to do until something happens.
  Wait,
  /// There is more to do right now.
  Again,
  /// It is over.
  Done(Reply),
  /// It cannot be ended but by ending everything.
  SweepAll,
  /// Not even so.
  GiveUp,
}

impl Step {
  /// `Again` outweighs `Wait`; the others are not compared.
  pub fn max(self, other: Self) -> Self {
    if self == Self::Wait { other } else { self }
  }
}

/// One operation's work.
enum Work {
  Command(Box<Command>),
  Reading(reading::Reading),
  Writing(Box<writing::Writing>),
  Listing(Box<listing::Listing>),
  Packing(Box<packing::Packing>),
  Unpacking(Box<unpacking::Unpacking>),
  Attack(Attack),
}

struct Operation {
  op: u64,
  kind: Kind,
  work: Work,
  /// It has a turn coming.
  awake: bool,
  /// It ends with this in its next turn.
  verdict: Option<Failure>,
}

struct Retained {
  op: u64,
  kind: Kind,
  reply: Reply,
  passed: [u64; 3],
}

/// All operations.
pub struct Operations {
  active: Vec<Operation>,
  retained: Vec<Retained>,
  next_tag: u64,
}

/// What a turn of all operations came to, beyond the operations.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Turn {
  /// Something can go on right now.
  pub again: bool,
  /// Processes are left that nothing ends: the container must.
  pub give_up: bool,
  /// The reply of operation 0, which is the supervisor's own.
  pub own: Option<Reply>,
}

impl Operations {
  /// An empty table.
  pub fn new() -> Self {
    Self {
      active: Vec::with_capacity(MAX_ACTIVE + 1),
      retained: Vec::with_capacity(MAX_RETAINED),
      next_tag: 1,
    }
  }

  /// A request of the host. `false`: its number is taken, or no number.
  pub fn open(
    &mut self,
    op: u64,
    kind: Kind,
    request: Option<&ToInside<'_>>,
    context: &mut Context<'_>,
  ) -> bool {
    let in_use =
      self.active.iter().any(|active| active.op == op) || self.retained.iter().any(|kept| kept.op == op);
    if in_use || op == 0 || is_channel(op) {
      return false;
    }
    if self.active.len() >= MAX_ACTIVE || self.active.len() + self.retained.len() >= MAX_RETAINED {
      // Not kept: that it is refused is what the host has to know, and there is no room. It must arrive all the same, also
      // while the operations that are in the way keep the link full: a host that hears nothing gives the container up.
      context.link.say(op, &ToHost::Done(failed(Failure::TooMany, 0)));
      return true;
    }
    let Some(request) = request else {
      self.finish(op, kind, failed(Failure::BadRequest, 0), [0; 3], context.link);
      return true;
    };
    match self.begin(op, request, context) {
      Ok(work) => {
        // A new command has nothing to say until a descriptor of it is ready.
        let awake = !matches!(work, Work::Command(_));
        self.active.push(Operation { op, kind, work, awake, verdict: None });
      }
      Err(reply) => self.finish(op, kind, reply, [0; 3], context.link),
    }
    true
  }

  /// Begins the attacks of the self-test as operation 0.
  pub fn open_self_test(&mut self, context: &mut Context<'_>) -> Option<Reply> {
    let tag = self.take_tag();
    match Attack::start(tag, context) {
      Ok(attack) => {
        let work = Work::Attack(attack);
        self.active.push(Operation { op: 0, kind: Kind::SelfTest, work, awake: true, verdict: None });
        None
      }
      Err(reply) => Some(reply),
    }
  }

  fn begin(&mut self, op: u64, request: &ToInside<'_>, context: &mut Context<'_>) -> Result<Work, Reply> {
    match request {
      ToInside::Exec(exec) => {
        let tag = self.take_tag();
        Command::start(op, tag, exec, context).map(|command| Work::Command(Box::new(command))).map_err(
          |(stage, error)| {
            let how = How::NotStarted(stage, error.raw_os_error());
            Reply::Command(CommandEnd { how, killed: 0, micros: 0 })
          },
        )
      }
      ToInside::ReadFile(request) => reading::Reading::open(op, request, context).map(Work::Reading),
      ToInside::WriteFile(request) => {
        writing::Writing::open(op, request, context).map(|writing| Work::Writing(Box::new(writing)))
      }
      ToInside::List(request) => {
        listing::Listing::open(op, request, context).map(|listing| Work::Listing(Box::new(listing)))
      }
      ToInside::TarOut(request) => {
        packing::Packing::open(op, request, context).map(|packing| Work::Packing(Box::new(packing)))
      }
      ToInside::TarIn(request) => {
        Ok(Work::Unpacking(Box::new(unpacking::Unpacking::open(op, request, context.link))))
      }
      // It has its answer at once.
      ToInside::Listen(listen) => Err(
        context
          .channels
          .listen(listen)
          .map_or_else(|error| failed(Failure::System, error.raw_os_error()), |()| Reply::Listening),
      ),
      ToInside::SelfTest => Attack::start(self.take_tag(), context).map(Work::Attack),
      _ => Err(failed(Failure::Unsupported, 0)),
    }
  }

  fn take_tag(&mut self) -> u64 {
    self.next_tag += 1;
    self.next_tag
  }

  /// The host has the reply.
  pub fn acknowledge(&mut self, op: u64) {
    self.retained.retain(|kept| kept.op != op);
  }

  /// A piece of input.
  pub fn take(&mut self, op: u64, data: &Data<'_>, context: &mut Context<'_>) {
    let Some(operation) = self.find(op) else { return };
    let taken = match &mut operation.work {
      Work::Command(command) => command.take(data, context.link).map_err(|_| Failure::Flow),
      Work::Writing(writing) => writing.take(data, context),
      Work::Unpacking(unpacking) => unpacking.take(data, context),
      _ => Err(Failure::Flow),
    };
    operation.awake = true;
    if let Err(failure) = taken {
      operation.verdict = operation.verdict.or(Some(failure));
    }
  }

  /// The end of input.
  pub fn end_input(&mut self, op: u64) {
    let Some(operation) = self.find(op) else { return };
    operation.awake = true;
    match &mut operation.work {
      Work::Command(command) => command.end_input(),
      Work::Writing(writing) => writing.end(),
      Work::Unpacking(unpacking) => unpacking.end(),
      _ => {}
    }
  }

  /// The host takes more.
  pub fn raise(&mut self, op: u64, credit: Credit) {
    let Some(operation) = self.find(op) else { return };
    operation.awake = true;
    match &mut operation.work {
      Work::Command(command) => command.raise(credit),
      Work::Reading(reading) if credit.stream == Stream::Output => reading.raise(credit.limit),
      Work::Listing(listing) if credit.stream == Stream::Output => listing.raise(credit.limit),
      Work::Packing(packing) if credit.stream == Stream::Output => packing.raise(credit.limit),
      _ => {}
    }
  }

  /// Stops an operation.
  pub fn cancel(&mut self, op: u64, now: Instant) {
    let Some(operation) = self.find(op) else { return };
    operation.awake = true;
    match &mut operation.work {
      Work::Command(command) => command.kill(How::Cancelled, now),
      _ => operation.verdict = operation.verdict.or(Some(Failure::Cancelled)),
    }
  }

  /// Signals a command.
  pub fn signal(&mut self, op: u64, number: u8) {
    if let Some(Operation { work: Work::Command(command), .. }) = self.find(op) {
      command.signal(number);
    }
  }

  fn find(&mut self, op: u64) -> Option<&mut Operation> {
    self.active.iter_mut().find(|active| active.op == op)
  }

  /// A process was collected.
  pub fn collected(&mut self, pid: i32, status: rustix::process::WaitStatus) {
    for operation in &mut self.active {
      match &mut operation.work {
        Work::Command(command) if command.pid() == pid => command.ended(status),
        Work::Attack(attack) if attack.pid() == pid => attack.ended(status),
        _ => continue,
      }
      operation.awake = true;
    }
  }

  /// What they wait for; owners are their places in the table from `first` on.
  pub fn wait(&self, set: &mut PollSet, first: usize, link: &Link) {
    for (place, operation) in self.active.iter().enumerate() {
      if let Work::Command(command) = &operation.work {
        command.wait(set, first + place, link);
      }
    }
  }

  /// Something that the operation at this place waited for happened.
  pub fn wake(&mut self, place: usize) {
    if let Some(operation) = self.active.get_mut(place) {
      operation.awake = true;
    }
  }

  /// Whether one of them has a turn coming.
  pub fn are_awake(&self) -> bool {
    self.active.iter().any(|active| active.awake)
  }

  /// A process ended, perhaps one that a sweep waits for.
  pub fn wake_sweeping(&mut self) {
    for operation in &mut self.active {
      if let Work::Command(command) = &operation.work {
        operation.awake |= command.is_sweeping();
      }
    }
  }

  /// When the first of them needs attention at the latest.
  pub fn due(&self) -> Option<Instant> {
    self.active.iter().filter_map(Operation::due).min()
  }

  /// Gives a turn to each that has something to do.
  pub fn turn(&mut self, context: &mut Context<'_>) -> Turn {
    let mut turn = Turn::default();
    let mut sweep_all = None;
    let mut place = 0;
    // The first is another one each time, so that none has the room in the stream to itself.
    if let Some(last) = self.active.pop() {
      self.active.insert(0, last);
    }
    while let Some(operation) = self.active.get_mut(place) {
      let step = operation.turn(context);
      match step {
        Step::Wait => {}
        Step::Again => turn.again = true,
        Step::SweepAll => sweep_all = Some(operation.op),
        Step::GiveUp => turn.give_up = true,
        Step::Done(reply) => {
          let Operation { op, kind, work, .. } = self.active.remove(place);
          if op == 0 {
            turn.own = Some(reply);
          } else {
            self.finish(op, kind, reply, work.passed(), context.link);
          }
          continue;
        }
      }
      place += 1;
    }
    if let Some(op) = sweep_all {
      self.sweep_all(op, context);
    }
    turn
  }

  fn sweep_all(&mut self, op: u64, context: &mut Context<'_>) {
    let _ = super::system::signals::kill_everything();
    context.link.mention(op, &ToHost::Notice(crate::supervisor::wire::Notice::KilledAll, 1));
    for operation in &mut self.active {
      operation.awake = true;
      if let Work::Command(command) = &mut operation.work {
        command.kill(How::Swept, context.now);
      }
    }
  }

  fn finish(&mut self, op: u64, kind: Kind, reply: Reply, passed: [u64; 3], link: &mut Link) {
    self.retained.push(Retained { op, kind, reply, passed });
    link.say(op, &ToHost::Done(reply));
  }

  /// What a new holder is told first.
  pub fn list(&self) -> Vec<ActiveOperation> {
    let active = self.active.iter().filter(|active| active.op != 0).map(|active| ActiveOperation {
      op: active.op,
      kind: active.kind,
      done: false,
      passed: active.work.passed(),
    });
    let kept = self.retained.iter().map(|kept| ActiveOperation {
      op: kept.op,
      kind: kept.kind,
      done: true,
      passed: kept.passed,
    });
    active.chain(kept).collect()
  }

  /// Says again what was not acknowledged.
  pub fn repeat(&self, link: &mut Link) {
    for kept in &self.retained {
      link.say(kept.op, &ToHost::Done(kept.reply));
    }
  }
}

impl Operation {
  fn due(&self) -> Option<Instant> {
    match &self.work {
      Work::Command(command) => command.due(),
      Work::Attack(attack) => Some(attack.due()),
      _ => None,
    }
  }

  fn turn(&mut self, context: &mut Context<'_>) -> Step {
    let is_due = self.due().is_some_and(|due| context.now >= due);
    if !self.awake && !is_due {
      return Step::Wait;
    }
    if let Some(failure) = self.verdict {
      match &mut self.work {
        Work::Command(command) => command.kill(How::Cancelled, context.now),
        _ => return Step::Done(failed(failure, 0)),
      }
    }
    let step = match &mut self.work {
      Work::Command(command) => command.step(context),
      Work::Reading(reading) => reading.step(context),
      Work::Writing(writing) => writing.step(context),
      Work::Listing(listing) => listing.step(context),
      Work::Packing(packing) => packing.step(context),
      Work::Unpacking(unpacking) => unpacking.step(context),
      Work::Attack(attack) => attack.step(context.now),
    };
    self.awake = step == Step::Again;
    step
  }
}

impl Work {
  fn passed(&self) -> [u64; 3] {
    match self {
      Self::Command(command) => command.passed(),
      Self::Reading(reading) => [0, reading.sent(), 0],
      Self::Listing(listing) => [0, listing.sent(), 0],
      Self::Packing(packing) => [0, packing.sent(), 0],
      Self::Writing(writing) => [writing.received(), 0, 0],
      Self::Unpacking(unpacking) => [unpacking.received(), 0, 0],
      Self::Attack(_) => [0; 3],
    }
  }
}

/// A reply that says that it came to nothing.
pub const fn failed(failure: Failure, errno: i32) -> Reply {
  Reply::Failed(Failed { failure, errno })
}
