// Package parcel puts a snapshot with all that it needs into one file, and takes such a file into a catalogue: on
// another machine, of another user, when nothing of the original is left.
//
// # Format
//
// A parcel is a tar archive, compressed by zstd. Without gorun it can be unpacked with tar: what
// comes out is a folder for snapshots.
//
//	parcel.toml                        first: format, job, snapshots (oldest first), programs, bytes
//	JOB/1/schema.toml                  of the oldest snapshot that the newest builds on
//	JOB/1/rank-00000.img               its images, by rank
//	...
//	JOB/3/schema.toml                  of the snapshot itself
//	JOB/3/rank-00000.img
//	...
//	JOB/programs/SHA-256               the executable, and libraries and what child processes run, by their sums
//	SHA256SUMS                         last: of each of these, for sha256sum -c
//
// Members come in this order and no other. So a reader knows the name and the size of the next one, and no name in a
// forged archive leads anywhere. The schemas say that the images lie beside them, wherever they were. Times, owners and modes
// are the same for all. So a snapshot has one parcel, byte for byte, wherever and whenever it is written by one gorun.
//
// The executable of native images is always in it. That of portable images is if its path still has the one that ran. Libraries are if their
// paths still have those that were mapped: a restart takes them where the machine has others.
//
// # Sealed parcels
//
// A parcel may be sealed (package sealed) with the key of a file. Images that are sealed in their store stay so: they need
// a key to leave it, and they lie sealed where they are taken in. The executable is no secret, there as ever.
//
// # What Import promises
//
// Nothing of a parcel is visible in the catalogue before all of it has been read, written, made durable, and checked: each
// member against its sum, each image with all its blocks against its schema, the chain, the executable. Then the
// snapshots get their schemas, the oldest first. What a crash leaves is swept like any unfinished snapshot.
package parcel

import (
	"bytes"
	"encoding/hex"
	"errors"
	"fmt"

	"github.com/BurntSushi/toml"
	"github.com/google/uuid"

	"github.com/gorun-mpi/gorun/cr/snapshot/internal/nesting"
)

// Format is the format of parcels that is written and read here.
const Format = 1

// Names of a parcel's own members.
const (
	manifestName = "parcel.toml"
	sumsName     = "SHA256SUMS"
	programsDir  = "programs"
)

// Bounds of members that are held in memory, in bytes.
const (
	maxManifest = 1 << 20
	maxSchema   = 256 << 20 // of all schemas together
	maxTable    = 1 << 17   // snapshots, and programs, that a manifest lists: each needs a folder or a file
)

// ErrParcel says that a file is no parcel, or one that was cut off or altered.
var ErrParcel = errors.New("not a whole parcel of a snapshot")

// ErrOther says that the catalogue has another snapshot of the same job and number.
var ErrOther = errors.New("there is another snapshot of this number")

// manifest is the first member.
type manifest struct {
	Format    int       `toml:"format"`
	Job       string    `toml:"job"`
	Snapshots []int     `toml:"snapshots"` // oldest first; the last is the one that was asked for
	Programs  []program `toml:"programs"`  // the executable is the first
	Bytes     int64     `toml:"bytes"`     // of all images and programs
}

// program is an executable or a library in the parcel.
type program struct {
	Digest string `toml:"digest"` // SHA-256, hex
	Size   int64  `toml:"size"`   // bytes
}

func (m *manifest) encode() ([]byte, error) {
	var b bytes.Buffer
	b.WriteString("# A snapshot of a gorun job with all that it needs. `gorun snapshots -import FILE` takes it in.\n")
	e := toml.NewEncoder(&b)
	e.Indent = ""
	err := e.Encode(m)
	return b.Bytes(), err
}

// parseManifest reads what may be damaged or forged.
func parseManifest(p []byte) (*manifest, error) {
	var v struct {
		Format int `toml:"format"`
	}
	if !nesting.Shallow(p) {
		return nil, fmt.Errorf("%w: %s is nested too deeply", ErrParcel, manifestName)
	}
	if _, err := toml.Decode(string(p), &v); err != nil {
		return nil, fmt.Errorf("%w: %s: %v", ErrParcel, manifestName, err)
	}
	if v.Format > Format {
		return nil, fmt.Errorf("%w: format %d, this gorun reads up to %d; use the newer gorun that wrote it", ErrParcel, v.Format, Format)
	}
	m := &manifest{}
	md, err := toml.Decode(string(p), m)
	if err != nil {
		return nil, fmt.Errorf("%w: %s: %v", ErrParcel, manifestName, err)
	}
	if keys := md.Undecoded(); len(keys) > 0 {
		return nil, fmt.Errorf("%w: %s: unknown key %q", ErrParcel, manifestName, keys[0].String())
	}
	return m, m.check()
}

func (m *manifest) check() error {
	last := 0
	for _, seq := range m.Snapshots {
		if seq <= last {
			return fmt.Errorf("%w: snapshots %v", ErrParcel, m.Snapshots)
		}
		last = seq
	}
	seen := map[string]bool{}
	for _, p := range m.Programs {
		if b, err := hex.DecodeString(p.Digest); err != nil || len(b) != 32 || hex.EncodeToString(b) != p.Digest || p.Size < 0 || seen[p.Digest] {
			return fmt.Errorf("%w: program %.80q", ErrParcel, p.Digest)
		}
		seen[p.Digest] = true
	}
	switch id, err := uuid.Parse(m.Job); {
	case m.Format < 1:
		return fmt.Errorf("%w: format %d", ErrParcel, m.Format)
	case err != nil || id.String() != m.Job:
		return fmt.Errorf("%w: job %.80q", ErrParcel, m.Job)
	case last == 0, m.Bytes < 0, len(m.Snapshots) > maxTable, len(m.Programs) > maxTable:
		return fmt.Errorf("%w: %d snapshots, %d programs, %d bytes", ErrParcel, len(m.Snapshots), len(m.Programs), m.Bytes)
	}
	return nil
}

// progress tells how many bytes have passed.
type progress struct {
	tell        func(done, total int64)
	done, total int64
}

func (p *progress) add(n int64) {
	p.done = min(p.done+n, p.total)
	if p.tell != nil {
		p.tell(p.done, p.total)
	}
}

// Write counts what passes.
func (p *progress) Write(b []byte) (int, error) {
	p.add(int64(len(b)))
	return len(b), nil
}
