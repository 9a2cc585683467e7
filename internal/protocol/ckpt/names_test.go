package ckpt

import (
	"fmt"
	"strings"

	"github.com/gorun-mpi/gorun/internal/protocol/oob"
)

// Names of messages, events and actions in the transcripts.

var kindNames = map[oob.Kind]string{
	oob.FinalizeWant: "finalize-want", oob.FinalizeGo: "finalize-go",
	oob.Prepare: "prepare", oob.Points: "points", oob.Target: "target", oob.AtPoint: "at-point",
	oob.Close: "close", oob.Dests: "dests", oob.Senders: "senders", oob.Bookmark: "bookmark",
	oob.Ready: "ready", oob.Capture: "capture", oob.Captured: "captured", oob.Open: "open",
	oob.Progress: "progress", oob.Written: "written", oob.Failed: "failed", oob.Revert: "revert",
	oob.Ask: "ask", oob.Where: "where", oob.Commit: "commit", oob.Look: "look", oob.Seen: "seen",
	oob.Hold: "hold", oob.Held: "held", oob.Release: "release", oob.Due: "due", oob.Pass: "pass",
}

var eventNames = map[RankEventType]string{
	EvArmed: "armed", EvAtPoint: "at-point", EvClosed: "closed", EvFlushed: "flushed",
	EvProgress: "progress", EvCaptured: "captured", EvWriting: "writing", EvWritten: "written",
	EvFailed: "failed", EvUnable: "unable", EvWhere: "where",
}

var actionNames = map[RankActionType]string{
	ActArm: "arm", ActRunTo: "run-to", ActCloseGate: "close-gate", ActFlush: "flush",
	ActDrain: "drain", ActReady: "stop-receiving", ActCapture: "capture", ActOpenGate: "open-gate",
	ActDiscard: "discard", ActWhere: "where?", ActCommitted: "committed", ActReverted: "reverted",
}

var headEventNames = map[HeadEventType]string{
	HvRequest: "request", HvDied: "died", HvTimeout: "timeout", HvFolder: "folder",
	HvFolderFailed: "folder-failed", HvCommitted: "committed", HvCommitFailed: "commit-failed", HvAllUp: "all-up",
	HvNative: "native-impossible", HvHold: "hold", HvRelease: "release", HvPause: "pause", HvGoOn: "go-on", HvMoveFailed: "move-failed", HvAhead: "ahead",
}

var modeNames = map[uint64]string{oob.ModeSelf: "self", oob.ModeNative: "native", oob.ModeAuto: "auto"}

func lookup[K comparable](names map[K]string, name string) (k K, ok bool) {
	for k, n := range names {
		if n == name {
			return k, true
		}
	}
	return k, false
}

func party(i int32) string {
	switch {
	case i == oob.Head:
		return "head"
	case i < oob.Head:
		return fmt.Sprintf("agent%d", -2-i)
	}
	return fmt.Sprint(i)
}

// say writes what a message means, without whence and whither.
func say(m oob.Msg) string {
	s := kindNames[m.Kind]
	switch m.Kind {
	case oob.Points, oob.Target, oob.AtPoint, oob.Senders, oob.Bookmark, oob.Captured, oob.Progress, oob.Written, oob.Commit, oob.Held, oob.Pass:
		s += fmt.Sprint(" ", m.A)
	case oob.Prepare, oob.Close:
		s += " " + modeNames[m.A]
	case oob.Failed:
		if m.A == failedPreparing {
			s += " to-stop"
		}
		if m.B == nothingToPrepare {
			s += " nothing-registered"
		}
	case oob.Where:
		s += " (" + State(m.A).String() + ")"
	case oob.Dests:
		s += fmt.Sprintf(" of %d:", m.A)
		d := NewDestSum(1 << 20)
		if _, _, err := d.Add(m); err != nil {
			return s + " " + err.Error()
		}
		for p := m.Data; len(p) > 0; p = p[16:] {
			s += fmt.Sprintf(" %d<-%d", p[0], p[8])
		}
		return s
	}
	if len(m.Data) > 0 {
		s += fmt.Sprintf(" %q", m.Data)
		s = strings.ReplaceAll(s, `\"`, `'`)
	}
	return s
}

func sayAction(a RankAction) string {
	if a.Type == ActSend {
		return fmt.Sprintf("-> %s: %s", party(a.Msg.To), say(a.Msg))
	}
	s := actionNames[a.Type]
	if a.Type == ActArm && a.N != 0 {
		s += " " + modeNames[a.N]
	}
	if a.Type == ActRunTo || a.Type == ActCommitted {
		s += fmt.Sprint(" ", a.N)
	}
	if a.Type == ActReverted {
		s += fmt.Sprintf(" %q", a.Data)
	}
	return s
}

func sayHead(a HeadAction) string {
	switch a.Type {
	case HactSend:
		return fmt.Sprintf("-> %s: %s", party(a.Msg.To), say(a.Msg))
	case HactTimer:
		return fmt.Sprintf("timer %d in %d ms", a.Timer, a.Millis)
	case HactStopTimer:
		return fmt.Sprintf("stop timer %d", a.Timer)
	case HactFolder:
		return "make folder"
	case HactCommit:
		files := make([]string, 0, len(a.Images))
		for _, i := range a.Images {
			files = append(files, i.File)
		}
		return fmt.Sprintf("commit %d (%s): %s", a.Seq, modeNames[a.Mode], strings.Join(files, " "))
	case HactDiscard:
		return fmt.Sprintf("discard %d", a.Seq)
	case HactDone:
		return sayDone(a.Done)
	case HactHeld:
		if a.Done.Err != "" {
			return fmt.Sprintf("hold %d failed: %s", a.Done.ID, a.Done.Err)
		}
		return fmt.Sprintf("hold %d is in force", a.Done.ID)
	case HactMoved:
		s := fmt.Sprintf("move %d: the images are written: %d", a.Done.ID, a.Seq)
		if a.Done.Base > 0 {
			s += fmt.Sprintf(" on %d", a.Done.Base)
		}
		return strings.Join(append([]string{s}, a.Done.Notes...), "; ")
	case HactAhead:
		return fmt.Sprintf("bring the images of %d", a.Seq)
	case HactFinalized:
		return "finalized"
	}
	i := a.Info
	return fmt.Sprintf("progress: %s, %d of %d ranks, %d of %d bytes", i.Phase, i.Ranks, i.Size, i.Written, i.Total)
}

func sayDone(d Done) string {
	if d.Err != "" {
		return fmt.Sprintf("request %d failed: %s", d.ID, d.Err)
	}
	s := fmt.Sprintf("request %d done: snapshot %d", d.ID, d.Seq)
	if d.Base != 0 {
		s += fmt.Sprintf(" on %d", d.Base)
	}
	if d.Pause != 0 {
		s += fmt.Sprintf(", pause %v", d.Pause)
	}
	if d.Stop {
		s += ", end the job"
	}
	for _, n := range d.Notes {
		s += "; " + n
	}
	return s
}
