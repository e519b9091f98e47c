//! Signals, and queries of the process table. It only signals processes that the caller passes. Without `/proc` it has less
//! information and assumes that a process may be a server.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process, test_kill_process};

/// The program name of a postmaster and of its children.
const SERVER_PROGRAM: &str = "postgres";
/// `USER_HZ`: /proc counts processor time in hundredths of a second.
const TICK: Duration = Duration::from_millis(10);

/// Sends a signal. It is not an error if the process does not exist.
pub(crate) fn signal(pid: u32, signal: Signal) {
    if let Some(pid) = raw(pid) {
        // The process has exited, or belongs to another user; callers check next whether it is alive.
        let _ = kill_process(pid, signal);
    }
}

/// Whether a process with this id exists that this process may signal, even if it is a zombie.
pub(crate) fn exists(pid: u32) -> bool {
    raw(pid).is_some_and(|pid| test_kill_process(pid).is_ok())
}

/// Whether the process exists and is not a zombie.
pub(crate) fn alive(pid: u32) -> bool {
    exists(pid) && Stat::read(pid).is_none_or(|stat| !stat.dead())
}

/// The living children of a process.
pub(crate) fn children(parent: u32) -> Vec<u32> {
    let of_parent =
        |pid: &u32| Stat::read(*pid).is_some_and(|stat| stat.parent == parent && !stat.dead());
    all().filter(of_parent).collect()
}

/// The processor time of a process and of all its children, including those that have ended. `None` without `/proc`.
pub(crate) fn cpu_time(parent: u32) -> Option<Duration> {
    let own = Stat::read(parent)?;
    let all = all().filter_map(Stat::read);
    let children = all.filter(|stat| stat.parent == parent);
    let ticks = own.ticks + own.ticks_of_ended + children.map(|child| child.ticks).sum::<u64>();
    Some(TICK.saturating_mul(u32::try_from(ticks).unwrap_or(u32::MAX)))
}

/// The living PostgreSQL processes whose working directory is this cluster.
pub(crate) fn servers_in(pgdata: &Path) -> Vec<u32> {
    let here = |pid: &u32| {
        let server =
            Stat::read(*pid).is_some_and(|stat| stat.program == SERVER_PROGRAM && !stat.dead());
        server && working_dir(*pid).is_some_and(|dir| dir == pgdata)
    };
    all().filter(here).collect()
}

/// Whether this process may be a server in this cluster: it is alive, and neither its program nor its working directory
/// contradicts that. (The process id in a stale `postmaster.pid` may belong to another program.)
pub(crate) fn may_serve(pid: u32, pgdata: &Path) -> bool {
    alive(pid)
        && Stat::read(pid).is_none_or(|stat| stat.program == SERVER_PROGRAM)
        && working_dir(pid).is_none_or(|dir| dir == pgdata)
}

fn raw(pid: u32) -> Option<Pid> {
    Pid::from_raw(i32::try_from(pid).ok()?)
}

fn all() -> impl Iterator<Item = u32> {
    let entries = fs::read_dir("/proc").into_iter().flatten().flatten();
    entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok())
}

fn working_dir(pid: u32) -> Option<PathBuf> {
    fs::read_link(format!("/proc/{pid}/cwd")).ok()
}

/// Fields of `/proc/PID/stat`.
struct Stat {
    program: String,
    state: char,
    parent: u32,
    /// Processor time, in [`TICK`]s.
    ticks: u64,
    /// That of children that have ended.
    ticks_of_ended: u64,
}

impl Stat {
    fn read(pid: u32) -> Option<Self> {
        Self::parse(&fs::read_to_string(format!("/proc/{pid}/stat")).ok()?)
    }

    /// Parses `pid (program) state parent …`; proc_pid_stat(5). The name of the program may contain spaces and parentheses.
    fn parse(line: &str) -> Option<Self> {
        let (head, tail) = line.rsplit_once(')')?;
        let (_, program) = head.split_once('(')?;
        let mut fields = tail.split_whitespace();
        let state = fields.next()?.chars().next()?;
        let parent = fields.next()?.parse().ok()?;
        // After nine other fields: utime, stime, cutime, cstime.
        let times = fields.skip(9).take(4).map(|field| field.parse().ok());
        let times: Option<Vec<u64>> = times.collect();
        let [user, system, user_of_ended, system_of_ended] = times?.try_into().ok()?;
        Some(Self {
            program: program.to_owned(),
            state,
            parent,
            ticks: user + system,
            ticks_of_ended: user_of_ended + system_of_ended,
        })
    }

    fn dead(&self) -> bool {
        matches!(self.state, 'Z' | 'X')
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::process::Command;

    #[test]
    fn parses_program_names_with_spaces_and_parentheses() {
        let line = "12 (a (b) c) Z 7 12 12 0 -1 4 90 91 92 93 31 2 50 7 20 0";
        let stat = Stat::parse(line).unwrap();
        assert_eq!(
            (stat.program.as_str(), stat.parent, stat.dead()),
            ("a (b) c", 7, true)
        );
        assert_eq!((stat.ticks, stat.ticks_of_ended), (33, 57));
        assert!(Stat::parse("12 a Z").is_none());
    }

    #[test]
    fn time_of_children_counts_after_they_have_ended() {
        let own = std::process::id();
        let of_ended = || Stat::read(own).unwrap().ticks_of_ended;
        let before = of_ended();
        let work = "i=0; while [ $i -lt 200000 ]; do i=$((i + 1)); done";
        let mut child = Command::new("sh").args(["-c", work]).spawn().unwrap();
        child.wait().unwrap();
        assert!(of_ended() > before);
        assert_eq!(cpu_time(u32::MAX), None);
    }

    #[test]
    fn this_process_is_alive_and_not_a_server() {
        let own = std::process::id();
        assert!(alive(own));
        assert!(!may_serve(own, Path::new("/")));
        assert!(servers_in(Path::new("/nowhere")).is_empty());
        assert!(!alive(0));
        assert!(!alive(u32::MAX));
    }
}
