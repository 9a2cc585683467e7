package sim

import (
	"fmt"

	"github.com/gorun-mpi/gorun/internal/protocol/oob"
)

// Words for the transcript.

var kindNames = map[oob.Kind]string{
	oob.Up: "up", oob.Running: "running", oob.FinalizeWant: "finalize-want", oob.FinalizeGo: "finalize-go",
	oob.Prepare: "prepare", oob.Points: "points", oob.Target: "target", oob.AtPoint: "at-point",
	oob.Close: "close", oob.Dests: "dests", oob.Senders: "senders", oob.Bookmark: "bookmark",
	oob.Ready: "ready", oob.Capture: "capture", oob.Captured: "captured", oob.Open: "open",
	oob.Progress: "progress", oob.Written: "written", oob.Failed: "failed", oob.Revert: "revert",
	oob.Hello: "hello", oob.Spawn: "spawned", oob.Exit: "exit", oob.Failure: "failing", oob.AbortJob: "abort", oob.KillAll: "kill", oob.Signal: "signal", oob.Start: "let go",
	oob.Ask: "ask", oob.Where: "where", oob.Commit: "commit", oob.Look: "look", oob.Seen: "seen", oob.Tail: "tail", oob.Bound: "bound",
	oob.Hold: "hold", oob.Held: "held", oob.Release: "release", oob.Due: "due", oob.Pass: "pass", oob.Offload: "offload",
}

func party(i int32) string {
	switch {
	case i == oob.Head:
		return "head"
	case i < oob.Head:
		return fmt.Sprintf("agent %d", -2-i)
	}
	return fmt.Sprintf("rank %d", i)
}

func say(m oob.Msg) string {
	s := kindNames[m.Kind]
	if m.Attempt != 0 {
		s += fmt.Sprintf(" (attempt %d)", m.Attempt)
	}
	switch m.Kind {
	case oob.Points, oob.Target, oob.AtPoint, oob.Senders, oob.Bookmark, oob.Captured, oob.Progress, oob.Written, oob.Commit:
		s += fmt.Sprint(" ", m.A)
	case oob.Failed, oob.Revert, oob.Where:
		s += fmt.Sprintf(" %q", m.Data)
	}
	return s
}
