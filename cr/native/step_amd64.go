package native

import (
	"fmt"
	"time"

	"golang.org/x/sys/unix"
)

// stepWait bounds the wait for one instruction.
const stepWait = 500 * time.Millisecond

// errMidway says that a thread does not get to where it can be imaged.
var errMidway = fmt.Errorf("%w: it stands in the kernel's code, is being born or about to end", ErrBusy)

// step executes one instruction of a thread.
func step(tid int) (regs, error) {
	sig := 0
	for {
		if err := resumeStep(tid, sig); err != nil {
			return regs{}, err
		}
		s, err := waitStop(tid, stepWait)
		switch {
		case err != nil:
			// It sleeps in a system call, as no thread does that is being born, or
			// the processor has no time for it. Either way it has to stand again.
			if interrupt(tid) == nil {
				waitStop(tid, stopLimit)
			}
			return regs{}, errMidway
		case s.exited:
			return regs{}, errMidway // or the process was killed, which shows later
		case s.event == 0 && s.sig == int(unix.SIGTRAP):
			return getRegs(tid)
		}
		if sig = 0; s.delivery() {
			sig = s.sig
		}
	}
}
