// Package whole is the interface of back-ends that image whole processes. Back-ends
// implement it: cr/native and cr/criu. The launcher calls it. Neither knows the
// other. A command registers the back-ends that it has.
package whole

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/gorun-mpi/gorun/cr/image"
)

// Imager is a back-end. The launcher decides when; an imager knows how. Each is known
// by its name to -cr, to the schema of a snapshot and to the images' Meta.
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
	CheckRestart(images []image.Source, files FilesPolicy) error
	// Describe tells what an image holds, for gorun image inspect.
	Describe(path string) ([]Fact, error)
	// NewTracer returns what an agent works with.
	NewTracer(threads int) (Tracer, error)
}

// Outputs is an Imager that can tell which files a process was writing to.
type Outputs interface {
	// Outputs lists the regular files that an image has open for writing.
	Outputs(image image.Source) ([]string, error)
}

// Sharer is an Imager that knows which files several ranks write to. Such a file is cut once for all of them.
type Sharer interface {
	// Shared lists the files that several of a job's images have open for writing. The error names those that
	// cannot be brought back to what they were.
	Shared(images []image.Source) ([]SharedFile, error)
}

// SharedFile is a file that several ranks write to. They are imaged one after the other, and one that is imaged early may
// write before another one is: of all lengths that the file had then, the greatest has what all of them had written.
type SharedFile struct {
	Path  string   `json:"path"`  // as the first of the ranks has it
	IDs   []string `json:"ids"`   // what images of ranks on any node call the file, see FileID
	Ranks []int    `json:"ranks"` // ascending
	Size  int64    `json:"size"`  // bytes, of the cut
}

// FileID is what an image calls a file, by its device and inode.
func FileID(dev, inode uint64) string { return fmt.Sprintf("%x:%x", dev, inode) }

// SharedBy picks the files that a rank shares with others.
func SharedBy(all []SharedFile, rank int) (its []SharedFile) {
	for _, f := range all {
		if slices.Contains(f.Ranks, rank) {
			its = append(its, f)
		}
	}
	return its
}

// Merger is an Imager that makes one image of several.
type Merger interface {
	// Merge writes what the first of some images holds, each of which builds on the next. If the last builds on another, so does the new one; base is
	// the number of that snapshot, 0: none. seq is the number of the new image's own. opt.BlockSize may be enlarged.
	Merge(to image.Target, seq, base int, from []image.Source, opt image.Options) (image.Summary, error)
}

// Mover is an Imager whose processes can move: of a rank two exist for a while, the one that was imaged, which
// stands, and the one that was made of its image.
type Mover interface {
	// Moves does nothing. A back-end that has it handles FilesStand, and images that build on one
	// made while the process ran.
	Moves()
}

// Tunable is an Imager with parameters, which come with those of the job. Their names begin with its own and a dot.
type Tunable interface {
	Parameters() []Parameter
	// CheckParams returns an error if those of a job are invalid; it ignores what others are for.
	CheckParams(given map[string]string) error
}

// Linked is an Imager whose images need files beside the executable.
type Linked interface {
	// Libraries lists them: what an image maps, and what child processes run.
	Libraries(image.Source) ([]Library, error)
}

// Library is such a file, where it was.
type Library struct {
	Path   string
	Digest string // SHA-256, hex
}

// Parameter describes one.
type Parameter struct {
	Name, Default string
	Doc           string // one line
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

// ErrDied is what a Target says of a process that has ended. Its parent reaps it.
var ErrDied = errors.New("the process has ended")

// Target is a rank that may be imaged. Not for concurrent use. Errors leave it to the
// caller to say whose they are.
type Target interface {
	// Capture makes a copy of the process as it is now, and lets it go on. After an
	// error the process is as it was, and nothing has to be released.
	Capture(CaptureOptions) (Copy, error)
	// Committed says that the snapshot seq is: the next Capture may build on it.
	Committed(seq int)
	Close() error
}

// CaptureOptions say how a rank is to be captured.
type CaptureOptions struct {
	Seq    int    // of the snapshot being taken
	Base   int    // of the snapshot that an incremental image may build on; 0: full
	Track  bool   // note what changes from now on, for the next image
	NoFork bool   // no copy: the process stands still until its image is written
	CPUs   []byte // mask of those that the process was given; the image notes where a thread has others. nil: those of its parent
	Stands func() // called while the process stands as the image shows it; may be nil
}

// Copy is a captured rank whose image has yet to be written.
type Copy interface {
	PID() int             // of the process that holds it, 0 if none does
	Bytes() uint64        // of memory the image will hold, at most
	Pause() time.Duration // for which the rank stood still so far
	Base() int            // sequence of the snapshot it builds on; 0: full
	Note() string         // what the user ought to know, or ""
	Write(to image.Target, m image.Meta, opt image.Options) (image.Summary, error)
	// Release ends the copy, or lets the process go on if there is none.
	Release() error
}

// RestoreOptions say how a process is made from an image.
type RestoreOptions struct {
	Rank                       int
	Image                      image.Source
	Base                       func(seq int) image.Source // this rank's image in another snapshot of the job, nil if it is not at hand; may be nil
	Program                    string                     // the executable kept with the snapshot
	Stdin, Stdout, Stderr, OOB int                        // descriptors here that become 0, 1, 2 and the stream to the agent there; negative: none
	Files                      FilesPolicy
	Shared                     []SharedFile      // those that this rank writes to with others
	Tag                        string            // names what Files makes
	Hold                       bool              // leave it stopped by SIGSTOP, for a debugger
	Attends                    bool              // it attends a program, its child, and that is the one to hold
	Params                     map[string]string // of the job; those that begin with the back-end's name are its own
}

// Restored is a process that was made from an image. Until Go it takes no step
// and changes no file.
type Restored struct {
	PID    int
	Held   int    // the process that is stopped for a debugger, if that is another one
	Unread []byte // bytes from its agent that it had not read; to be sent before anything else
	Note   string // what was out of the ordinary, or ""
	Warn   string // what the user is to be told in any case, or ""
	// Extensions are those of the processor's instructions that the image needs.
	Extensions []string

	// Cut, if there is one, cuts the files that this rank cuts for all ranks that share them. It is
	// called before any rank of the job goes.
	Cut func() error
	// Go lets it go; after an error nothing of it is left. End ends and reaps it.
	// One of them is called.
	Go, End func() error
	// Tails are the files, set by Cut and Go, with what they have cut off output files; after
	// an error, too.
	Tails []string
	// Close, if there is one, is called when it has been reaped.
	Close func() error
}

// FilesPolicy says what a restart does with the files that the program was
// writing to.
type FilesPolicy string

// The policies for the files of a restart.
const (
	// FilesRefuse goes on in the file, cut to the length it had. What is cut off is
	// kept in a file beside it. A file that is missing, shorter, or being written to
	// by another job is an error. One that several ranks write to is cut once for all of them. Another file of that name, at least as
	// long, is taken for the one that was open, and noted.
	FilesRefuse FilesPolicy = "refuse"
	// FilesCopy goes on in a copy of the file, of the length that it had, and leaves
	// the file alone.
	FilesCopy FilesPolicy = "copy"
	// FilesKeep goes on in the file as it is, with any length and other writers.
	FilesKeep FilesPolicy = "keep"
	// FilesStand is for a rank that moves, and no choice of the user's. The process that was imaged still stands, and
	// may have its files locked. The file is neither cut nor locked; a file that is missing or shorter is an error.
	FilesStand FilesPolicy = "stand"
)

// FilesPolicies lists those that a user may name.
var FilesPolicies = []string{string(FilesRefuse), string(FilesCopy), string(FilesKeep)}
