package job

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"runtime"
	"strings"
	"sync/atomic"

	"github.com/gorun-mpi/gorun/internal/offload"
	"github.com/gorun-mpi/gorun/internal/protocol/oob"
	"github.com/gorun-mpi/gorun/internal/rank/engine"
	"github.com/gorun-mpi/gorun/internal/system/endian"
	"github.com/gorun-mpi/gorun/rpi"
)

// Connect makes this process a rank of the job whose agent started it. Without an agent it makes a job of one
// rank.
//
// Start-up, all over the inherited socket:
//
//	rank                      agent / head
//	 Hello  ----------------->            version range, byte order
//	        <----------------- Hello
//	        <----------------- Start      rank, size, secret, transports
//	 Address ---------------->            where this rank is reached
//	        ...                           until all reach all, see package wireup
//	 Up     ----------------->
//
// From then on the job is that of the process, see Default.
func Connect() (*Job, error) {
	conn, err := oob.Inherited()
	if err != nil {
		return nil, err
	}
	j := single
	if program := os.Getenv(oob.EnvAttended); conn == nil && program != "" {
		return nil, fmt.Errorf("rank %s of %s is %s, which was taken for a program that knows nothing of gorun, so that what it starts has no ranks to talk to: "+
			"write the name of this executable whole into the script, or give it as an argument (a script then ends with exec \"$@\"), or unset %s if this process is to be alone",
			os.Getenv(oob.EnvRank), os.Getenv(oob.EnvSize), program, oob.EnvAttended)
	}
	if conn != nil {
		j = func() (*Job, error) { return join(conn) }
	}
	job, err := j()
	if err != nil {
		return nil, err
	}
	own.Store(job)
	return job, nil
}

var own atomic.Pointer[Job]

// Default returns the process's own job, nil before Connect.
func Default() *Job { return own.Load() }

func single() (*Job, error) {
	w := rpi.NewChanWaiter()
	names := new(Names)
	e := engine.New(engine.Config{Rank: 0, Size: 1, Waiter: w, Name: names.Path})
	e.Start()
	return New(Config{Start: oob.StartConfig{Size: 1}, Engine: e, Waiter: w, Names: names}), nil
}

func join(conn *oob.Conn) (*Job, error) {
	if _, err := conn.Greet(self(), -1); err != nil {
		return nil, err
	}
	m, err := conn.Recv()
	if err != nil {
		return nil, fmt.Errorf("waiting for the launcher: %w", err)
	}
	start, err := startOf(&m)
	if err != nil {
		return nil, err
	}
	j, err := Enter(conn, start, nil)
	if err != nil {
		// The head shows the reason; without this it would only see an exit.
		return nil, errors.Join(err, conn.Send(failure(start, err, oob.FailureOwn)))
	}
	if start.Devices {
		offload.SetHost(j.devices)
	}
	return j, nil
}

// self describes this rank to the head.
func self() oob.HelloInfo {
	return oob.HelloInfo{Role: "rank", PID: os.Getpid(), Arch: runtime.GOARCH, BigEndian: endian.Big}
}

// failure tells the head of an error of this rank; how is oob.FailureOwn or another. The frame says which rank
// this is.
func failure(start oob.StartConfig, err error, how uint64) oob.Msg {
	text := strings.TrimPrefix(err.Error(), fmt.Sprintf("rank %d: ", start.Rank))
	return oob.Msg{Kind: oob.Failure, From: int32(start.Rank), To: oob.Head, Incarnation: start.Incarnation, B: how, Data: []byte(text)}
}

// Enter makes a rank of a job. It opens the transports, and learns over the link how all others are reached. It
// returns when that is done. lost is as in Config.
func Enter(link Link, start oob.StartConfig, lost func(error)) (*Job, error) {
	switch {
	case start.Image == "":
	case start.Backend == backendNative:
		return nil, fmt.Errorf("rank %d cannot begin from %s, the image of a whole process: gorun restores such a process, it does not start it", start.Rank, start.Image)
	case NewBackend == nil:
		return nil, fmt.Errorf("rank %d cannot be restarted from %s: %w", start.Rank, start.Image, ErrNoBackend)
	}
	var running atomic.Pointer[Job]
	seat := newSeat(&start)
	moveOff := func() { moveTo(seat.place()) }
	names := new(Names)
	e := engine.New(engine.Config{Rank: start.Rank, Size: start.Size, Local: start.Local, MoveOff: moveOff, Hurry: hurry, Seat: seat, Name: names.Path, Failed: func(_ int, err error) {
		now, leaving := start, false
		if j := running.Load(); j != nil {
			now, leaving = *j.start.Load(), j.finalizing.Load()
		}
		// Said before the program can react: if it exits now, the head knows that this is a consequence. If the
		// head is gone as well, so is this rank.
		_ = link.Send(failure(now, err, oob.FailureFollows))
		if now.Rescue && !leaving { // in Finalize the others may have been released before
			// The engine's lock is held, so no call returns. So the program does not clean up,
			// print or end because of a failure that the restart undoes.
			select {}
		}
	}})
	t, err := newTransports(link, start, e, nil)
	if err == nil {
		err = t.connect()
	}
	if err != nil {
		return nil, err
	}
	e.Start()
	up := oob.Msg{Kind: oob.Up, From: int32(start.Rank), To: oob.Head, Incarnation: start.Incarnation}
	if err := link.Send(up); err != nil {
		return nil, errors.Join(err, e.Close())
	}
	j := New(Config{Start: start, Engine: e, Modules: t.modules, Waiter: t.waiter, Names: names, Link: link, Lost: lost, seat: seat})
	running.Store(j)
	return j, nil
}

// connect goes on until every rank knows how it reaches every other.
func (t *transports) connect() error {
	say, err := t.open()
	for done := false; err == nil; {
		if err = t.link.Send(say); err != nil {
			break
		}
		var m oob.Msg
		if m, err = t.link.Recv(); err != nil {
			err = fmt.Errorf("rank %d: waiting for the other ranks' addresses: %w", t.start.Rank, err)
			break
		}
		if say, done, err = t.hear(&m); done {
			break
		}
	}
	if err != nil {
		return errors.Join(err, t.close())
	}
	return nil
}

// startOf reads what a message of kind Start says.
func startOf(m *oob.Msg) (start oob.StartConfig, err error) {
	if m.Kind != oob.Start {
		return start, fmt.Errorf("waiting for the launcher: message of kind %d before the start", m.Kind)
	}
	if err = json.Unmarshal(m.Data, &start); err != nil {
		return start, fmt.Errorf("start configuration: %w", err)
	}
	if start.Rank < 0 || start.Rank >= start.Size {
		return start, fmt.Errorf("start configuration: rank %d of %d", start.Rank, start.Size)
	}
	return start, nil
}
