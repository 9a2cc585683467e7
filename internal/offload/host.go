package offload

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"sync/atomic"
)

// Under gorun the agent of a rank starts and watches its offload processes, and has the other end of their sockets. So the rank
// has no child and no socket that an image of it could not hold, and the agent can pause them with the rank. The rank speaks to the agent in wishes, the agent
// to the rank in news, about a process by a number that the rank has chosen.

// Wish is what a rank asks of its agent. Wishes are numbered from 1. A restored rank repeats those
// without an answer.
type Wish struct {
	Number uint64 `json:"number"`
	Start  *Start `json:"start,omitempty"` // start a process; answered by News.Answer with Hello, or Gone
	Order  *Order `json:"order,omitempty"` // give it an order; answered by News.Answer
	End    bool   `json:"end,omitempty"`   // end it; answered by Gone
	Valid  *Valid `json:"valid,omitempty"` // the answer to News.Round
}

// Valid is what need not be captured.
type Valid struct {
	Round    uint32   `json:"round"`
	Memories []uint64 `json:"memories"` // their content is valid at the host, and stale on the device from now on
}

// Start says which process a rank wants.
type Start struct {
	Device  string `json:"device"`            // its ID
	Ring    int    `json:"ring"`              // the rank's descriptor of the shared file
	Restore string `json:"restore,omitempty"` // a capture that the process begins with
}

// News is what an agent tells a rank.
type News struct {
	Answer *Answer `json:"answer,omitempty"` // of the process
	Gone   string  `json:"gone,omitempty"`   // the process has ended: how
	PID    int     `json:"pid,omitempty"`    // with a Hello, whose device may be another one after a restart
	Round  uint32  `json:"round,omitempty"`  // the agent asks which memories are valid at the host; the answer names the round
}

// Session is an offload process as an agent tells the head of it.
type Session struct {
	Device string `json:"device"` // its ID
	PID    int    `json:"pid"`    // 0: there is none
	State  string `json:"state"`
	Error  string `json:"error,omitempty"` // how it has died
	Out    bool   `json:"out,omitempty"`   // a user has swapped it out: it stays out until the user asks for it to be swapped in
}

// Swap is what a user wants done with processes of a rank. It goes from the head to the agent.
type Swap struct {
	Op       string `json:"op"`               // SwapOut, SwapIn or SwapMove
	Device   string `json:"device,omitempty"` // those on the device of this name (see SameDevice); "": all
	To       string `json:"to,omitempty"`     // in, move: the name of the device that takes them; "": the one where they were
	TimeoutM int64  `json:"timeout_ms"`       // for what a process is to finish first
}

// What a user may want.
const (
	SwapOut  = "swap-out"
	SwapIn   = "swap-in"
	SwapMove = "migrate"
)

// Swapped is the answer.
type Swapped struct {
	Done   int      `json:"done"` // processes
	Bytes  int64    `json:"bytes,omitempty"`
	Errors []string `json:"errors,omitempty"`
}

// Peer is what the rank's side of a process hears. Its methods do not wait.
type Peer interface {
	Heard(a Answer, pid int) // pid with a Hello
	Gone(how string)
	Valid() []uint64 // makes stale on the device what is valid at the host, and returns these memories
}

// Host starts offload processes in the place of a program.
type Host interface {
	Start(id uint64, s Start, p Peer) error
	Order(id uint64, o Order) error
	End(id uint64) error
}

var host atomic.Pointer[Host]

// SetHost says that there is a Host. A rank that has opened a device before keeps its own child.
func SetHost(h Host) { host.Store(&h) }

// TheHost returns the Host, or nil.
func TheHost() Host {
	if h := host.Load(); h != nil {
		return *h
	}
	return nil
}

// EnvServer names gorun-device in the environment.
const EnvServer = "GORUN_DEVICE_SERVER"

// EnvMemory limits the memory of each device, in bytes.
const EnvMemory = "GORUN_DEVICE_MEMORY"

// ErrNoServer says that gorun-device was not found.
var ErrNoServer = errors.New("there is no gorun-device beside the program, in PATH, or at " + EnvServer + ": build it from cmd/gorun-device (cd gorun/cmd/gorun-device && go install .)")

// Server returns the path of gorun-device: what env says, or that beside one of some executables, or what is found in path. Errors: ErrNoServer; that of env's file.
func Server(env, path string, executables ...string) (string, error) {
	if env != "" {
		found, err := exec.LookPath(env)
		if err != nil {
			return "", errors.Join(errors.New(EnvServer+" names no executable"), err)
		}
		return found, nil
	}
	var dirs []string
	for _, e := range executables {
		dirs = append(dirs, filepath.Dir(e))
	}
	for _, dir := range append(dirs, filepath.SplitList(path)...) {
		at := filepath.Join(dir, "gorun-device")
		if st, err := os.Stat(at); err == nil && st.Mode().IsRegular() && st.Mode()&0o111 != 0 {
			return at, nil
		}
	}
	return "", ErrNoServer
}
