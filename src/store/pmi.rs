//! PMI-1, the store of Hydra, the launcher of MPICH and of Intel MPI: lines of text on a connection
//! that the launcher has opened for this process, each answered by a line.
//!
//! MPI libraries have their own functions for that, and hide them. So circulant speaks on the same
//! connection, but only where no function of MPI runs: right before and right after MPI_Init.

use std::env;
use std::fs::File;
use std::io::{self, Read, Write};
use std::mem::ManuallyDrop;
use std::os::fd::{FromRawFd, RawFd};
use std::thread;
use std::time::Duration;

use super::key;
use crate::launcher;

/// The longest line that is read.
const LINE: usize = 4096;

/// The connection, of a process that Hydra has started.
pub struct Pmi {
    connection: RawFd,
    /// The name of the job's part of the store.
    space: String,
    rank: usize,
}

impl Pmi {
    /// That of this process, if there is one, before MPI_Init.
    pub fn of_process() -> Option<Pmi> {
        let (connection, rank) = connection()?;
        Pmi::on(connection, rank)
    }

    /// The same after MPI_Init.
    pub fn of_started_process() -> Option<Pmi> {
        let (connection, rank) = connection()?;
        Pmi::begun(connection, rank)
    }

    /// Over a connection, which stays open, for the process of this rank.
    fn on(connection: RawFd, rank: usize) -> Option<Pmi> {
        // Without it MPICH 4.0's forgets what was put. The MPI library says it again, which it may.
        ask(connection, "cmd=init pmi_version=1 pmi_subversion=1").ok()?;
        Pmi::begun(connection, rank)
    }

    fn begun(connection: RawFd, rank: usize) -> Option<Pmi> {
        let mut pmi = Pmi {
            connection,
            space: String::new(),
            rank,
        };
        let answer = pmi.ask("cmd=get_my_kvsname").ok()?;
        pmi.space = field(&answer, "kvsname")?.to_owned();
        Some(pmi)
    }

    /// This process's rank.
    pub fn rank(&self) -> usize {
        self.rank
    }

    /// Makes this process's entry, if that can be done. All who read the entries see whether it is
    /// there.
    pub fn put(&self, entry: &str) {
        let (space, key) = (&self.space, key(self.rank));
        let _ = self.ask(&format!("cmd=put kvsname={space} key={key} value={entry}"));
    }

    /// The entry of a rank, if it made one.
    pub fn entry(&self, rank: usize) -> Option<String> {
        let (space, key) = (&self.space, key(rank));
        let answer = self.ask(&format!("cmd=get kvsname={space} key={key}"));
        let answer = answer.ok()?;
        let is_there = field(&answer, "rc") == Some("0");
        is_there.then(|| field(&answer, "value").map(str::to_owned))?
    }

    fn ask(&self, line: &str) -> io::Result<String> {
        ask(self.connection, line)
    }
}

/// Ends the job of this process, which ends itself with this status. Hydra has to be told, or it
/// would let the others wait for a process that ends before MPI_Init.
pub fn end_job(status: u8) {
    if launcher::rank().is_some() {
        // Hydra drops what it has not passed on when a job ends. Open MPI 5's launcher may hang
        // where a process ends while others connect to it.
        thread::sleep(Duration::from_millis(300));
    }
    if let Some((connection, _)) = connection() {
        // The launcher does not answer.
        let _ = tell(connection, &format!("cmd=abort exitcode={status}"));
    }
}

/// The connection that Hydra has opened for this process, and the process's rank.
fn connection() -> Option<(RawFd, usize)> {
    let number = |name: &str| env::var(name).ok();
    // Other launchers speak PMI-2 on a connection of this name, and might mix it up with PMI-1.
    env::var_os(launcher::HYDRA)?;
    let connection = number("PMI_FD")?.parse().ok()?;
    Some((connection, number("PMI_RANK")?.parse().ok()?))
}

fn tell(connection: RawFd, line: &str) -> io::Result<ManuallyDrop<File>> {
    // SAFETY: the launcher opened this connection for the process. It stays open, because the
    // `File` is not dropped.
    let mut connection = ManuallyDrop::new(unsafe { File::from_raw_fd(connection) });
    connection.write_all(format!("{line}\n").as_bytes())?;
    Ok(connection)
}

/// Sends a line, and waits for the answer.
fn ask(connection: RawFd, line: &str) -> io::Result<String> {
    let mut connection = tell(connection, line)?;
    let mut answer = vec![0; LINE];
    let mut length = 0;
    // The launcher says nothing that it was not asked for, so nothing is read beyond the line.
    while !answer[..length].ends_with(b"\n") {
        match connection.read(&mut answer[length..]) {
            Ok(0) => return Err(io::ErrorKind::UnexpectedEof.into()),
            Ok(read) => length += read,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(String::from_utf8_lossy(&answer[..length]).into_owned())
}

/// What an answer says of a field.
fn field<'a>(answer: &'a str, name: &str) -> Option<&'a str> {
    let fields = answer.split_ascii_whitespace();
    let mut values = fields.filter_map(|field| field.split_once('='));
    values.find(|(key, _)| *key == name).map(|(_, value)| value)
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;
    use std::io::{BufRead, BufReader, Write};
    use std::os::fd::AsRawFd;
    use std::os::unix::net::UnixStream;
    use std::thread;

    use super::{Pmi, field};

    #[test]
    fn fields_of_answers_are_found() {
        let answer = "cmd=get_result rc=0 msg=success value=1:a=b\n";
        assert_eq!(field(answer, "rc"), Some("0"));
        assert_eq!(field(answer, "value"), Some("1:a=b"));
        assert_eq!(field("cmd=get_result rc=1\n", "value"), None);
    }

    /// Answers as Hydra does, in pieces, until the other end is closed.
    fn answer(mut connection: UnixStream) {
        let mut store: HashMap<String, String> = HashMap::new();
        let mut lines = BufReader::new(connection.try_clone().expect("a copy"));
        let mut line = String::new();
        while lines.read_line(&mut line).expect("a line") > 0 {
            let key = field(&line, "key").unwrap_or_default().to_owned();
            assert!(!line.contains("cmd=put") || field(&line, "kvsname") == Some("kvs_7"));
            let answer = match field(&line, "cmd") {
                Some("init") => "cmd=response_to_init rc=0 pmi_version=1 pmi_subversion=1".into(),
                Some("get_my_kvsname") => "cmd=my_kvsname kvsname=kvs_7".into(),
                Some("put") => {
                    store.insert(key, field(&line, "value").unwrap_or_default().to_owned());
                    "cmd=put_result rc=0 msg=success".into()
                }
                _ => match store.get(&key) {
                    Some(value) => format!("cmd=get_result rc=0 msg=success value={value}"),
                    None => format!("cmd=get_result rc=-1 msg=key_{key}_not_found value=unknown"),
                },
            };
            let (start, end) = answer.split_at(answer.len() / 2);
            write!(connection, "{start}").expect("a start");
            writeln!(connection, "{end}").expect("an end");
            line.clear();
        }
    }

    #[test]
    fn an_entry_is_read_as_it_was_made() {
        let (own, others) = UnixStream::pair().expect("a connection");
        let server = thread::spawn(|| answer(others));
        let pmi = Pmi::on(own.as_raw_fd(), 3).expect("a store");
        pmi.put("0.1.0-abc");
        assert_eq!(pmi.entry(3).as_deref(), Some("0.1.0-abc"));
        assert_eq!(pmi.entry(2), None);
        drop(own);
        server.join().expect("no failure");
    }

    #[test]
    fn a_launcher_that_is_gone_is_no_store() {
        let (own, others) = UnixStream::pair().expect("a connection");
        drop(others);
        assert!(Pmi::on(own.as_raw_fd(), 0).is_none());
    }
}
