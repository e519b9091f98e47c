//! A unit that met a plan which no longer fits its table is carried out once more, if its client has not been told anything
//! that a new answer could contradict.

use super::expect::Expect;
use super::retry::Repeat;
use super::state::RelayState;
use paceline_wire::backend::Status;

impl RelayState {
    /// The first unit of the relay is there as a whole, and whoever calls can say it again.
    pub fn can_be_repeated(&mut self) {
        self.repeat = Repeat::Open { told: 0 };
    }

    /// The client says more than the first unit.
    pub fn goes_on(&mut self) {
        self.repeat.answered();
    }

    /// Must the first unit be said again? Once.
    pub fn take_repeat(&mut self) -> bool {
        let Repeat::Ready { told } = self.repeat else {
            return false;
        };
        self.repeat = Repeat::Again {
            mute: told,
            renew: told,
        };
        true
    }

    /// Nothing can have been done, and nothing has been told, neither now nor by an earlier description that the new rows would
    /// contradict; unless the unit asks for a new one. (A procedure may have committed before it failed; and in a
    /// transaction that Paceline has begun, nothing but its end can follow.)
    pub(super) fn may_repeat(&self) -> bool {
        let begins = match self.expect.front() {
            Some(Expect::Bind { described, .. }) => !described || self.expect.describe(),
            Some(Expect::Query { by_name, .. }) => *by_name,
            _ => false,
        };
        begins
            && !self.stays
            && self.status == Status::Idle
            && self.status_before == Status::Idle
            && matches!(self.repeat, Repeat::Open { .. })
    }
}
