package native

import "sync"

// CaptureOptions say how a process is to be captured.
type CaptureOptions struct {
	Base   int  // sequence of the snapshot that an incremental image may build on; 0: full
	Seq    int  // sequence of the snapshot being taken
	Track  bool // follow from now on which pages change, for the next image
	NoFork bool // no copy: the process stands still until Copy.Release
	// CloneLock is held while the copy is born, so that a reaper of children does
	// not meet it before Capture knows it. May be nil.
	CloneLock sync.Locker
}

// Feature is something that this machine offers, or why it does not.
type Feature struct {
	Name string
	Err  error
}
