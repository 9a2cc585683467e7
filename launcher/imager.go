package launcher

import (
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/gorun-mpi/gorun/cr/image"
)

// Imager is a back-end that images whole processes from outside. The launcher
// decides when; an imager knows how. Each is known by its name to -cr, to the
// schema of a snapshot and to the images' Meta.
type Imager interface {
	Name() string
	// Doc is one line for gorun info.
	Doc() string
	// Supported says why it cannot work on this machine, nil if it can.
	Supported() error
	// Features lists what of this machine it would use.
	Features() []Feature
	// CheckProgram says why an executable cannot be imaged, nil if nothing
	// speaks against it.
	CheckProgram(path string) error
	// CheckRestart says, before anything is started, why images cannot go on on
	// this machine; they are one job's, by rank.
	CheckRestart(images []string, files FilesPolicy) error
	// Describe tells what an image holds, for gorun image inspect.
	Describe(path string) ([]Fact, error)
	// NewTracer returns what an agent works with.
	NewTracer(threads int) (Tracer, error)
}

// Feature is something that a machine has or lacks.
type Feature struct {
	Name string
	Err  error // why it is not there, nil if it is
}

// Fact is one line about an image.
type Fact struct {
	Name  string `json:"name"`
	Value string `json:"value"`
}

// Tracer images and restores the children of one process.
type Tracer interface {
	// Attach prepares the imaging of a running child; oob is the number of its
	// descriptor to this process, std are the descriptors here of what it was
	// given as 0, 1 and 2.
	Attach(pid, rank, oob int, std [3]int) (Target, error)
	Restore(RestoreOptions) (*Restored, error)
	Close()
}

// Target is a rank that may be imaged. Not for concurrent use.
type Target interface {
	Capture(CaptureOptions) (Copy, error)
	// Committed says that the snapshot seq is: the next Capture may build on it.
	Committed(seq int)
	Close() error
}

// CaptureOptions say how a rank is to be captured.
type CaptureOptions struct {
	Seq    int  // of the snapshot being taken
	Base   int  // of the snapshot that an incremental image may build on; 0: full
	Track  bool // note what changes from now on, for the next image
	NoFork bool // no copy: the process stands still until its image is written
}

// Copy is a captured rank whose image has yet to be written.
type Copy interface {
	PID() int             // of the process that holds it, 0 if none does
	Bytes() uint64        // of memory the image will hold, at most
	Pause() time.Duration // for which the rank stood still so far
	Base() int            // sequence of the snapshot it builds on; 0: full
	Note() string         // what the user ought to know, or ""
	Write(path string, m image.Meta, opt image.Options) (image.Summary, error)
	// Release ends the copy, or lets the process go on if there is none.
	Release() error
}

// RestoreOptions say how a process is made from an image.
type RestoreOptions struct {
	Rank                       int
	Image                      string
	Base                       func(seq int) string // path of this rank's image in another snapshot of the job
	Program                    string               // the executable kept with the snapshot
	Stdin, Stdout, Stderr, OOB int                  // descriptors here that become 0, 1, 2 and the stream to the agent there
	Files                      FilesPolicy
	Tag                        string // names what Files makes
	Hold                       bool   // leave it stopped by SIGSTOP, for a debugger
}

// Restored is a process that was made from an image. Until Go it takes no step
// and changes no file.
type Restored struct {
	PID    int
	Unread []byte // bytes from its agent that it had not read; to be sent before anything else
	Note   string // what was out of the ordinary, or ""
	Warn   string // what the user is to be told in any case, or ""

	// Go lets it go; after an error nothing of it is left. End ends and reaps it.
	// One of them is called.
	Go, End func() error
	// Close, if there is one, is called when it has been reaped.
	Close func() error
}

// FilesPolicy says what a restart does with the files that the program was
// writing to.
type FilesPolicy string

// What a restart may do. Never is anything cut off without being kept.
const (
	FilesRefuse FilesPolicy = "refuse" // go on in the file, unless another rank or job writes to it
	FilesCopy   FilesPolicy = "copy"   // go on in a copy
	FilesKeep   FilesPolicy = "keep"   // go on in the file as it is
)

// FilesPolicies lists them.
var FilesPolicies = []string{string(FilesRefuse), string(FilesCopy), string(FilesKeep)}

var imagers struct {
	sync.Mutex
	all []Imager
}

// RegisterImager adds a back-end; to be called before Run and AgentMain, by head
// and agents alike.
func RegisterImager(i Imager) {
	imagers.Lock()
	defer imagers.Unlock()
	imagers.all = append(imagers.all, i)
}

// Imagers returns the back-ends in the order in which they were registered.
func Imagers() []Imager {
	imagers.Lock()
	defer imagers.Unlock()
	return slices.Clone(imagers.all)
}

// FindImager finds a back-end by its name.
func FindImager(name string) (Imager, error) {
	var known []string
	for _, i := range Imagers() {
		if i.Name() == name {
			return i, nil
		}
		known = append(known, i.Name())
	}
	return nil, fmt.Errorf("this gorun has no back-end %q that images whole processes, it has: %s", name, strings.Join(known, ", "))
}
