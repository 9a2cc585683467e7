package trace

import (
	"fmt"
	"time"

	"golang.org/x/sys/unix"
)

// stepWait bounds the wait for one instruction.
const stepWait = 500 * time.Millisecond

// ErrMidway says that a thread does not get to where it can be imaged.
var ErrMidway = fmt.Errorf("%w: it stands in the kernel's code, is being born or about to end", ErrBusy)

// Step executes one instruction of a thread.
func Step(tid int) (Regs, error) {
	sig := 0
	for {
		if err := resumeStep(tid, sig); err != nil {
			return Regs{}, err
		}
		s, err := WaitStop(tid, stepWait)
		switch {
		case err != nil:
			// It sleeps in a system call, as no thread does that is being born, or
			// the processor has no time for it. Either way it has to stand again.
			if Interrupt(tid) == nil {
				WaitStop(tid, StopLimit)
			}
			return Regs{}, ErrMidway
		case s.Exited:
			return Regs{}, ErrMidway // or the process was killed, which shows later
		case s.event == 0 && s.Sig == int(unix.SIGTRAP):
			return GetRegs(tid)
		}
		if sig = 0; s.Delivery() {
			sig = s.Sig
		}
	}
}
