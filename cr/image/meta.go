package image

import (
	"encoding/json"
	"runtime"
	"time"

	"github.com/gorun-mpi/gorun/internal/system/endian"
	"github.com/gorun-mpi/gorun/internal/system/rawstring"
)

// HostBigEndian tells the byte order of this machine.
var HostBigEndian = endian.Big

// Meta says which job and rank an image belongs to, and where it was made. It stands at the start of the file
// as JSON. A reader ignores fields that it does not know. JSON is UTF-8, so a byte of Program that is not UTF-8
// is written as "\u0000" and its two hexadecimal digits.
type Meta struct {
	Format      int               `json:"format"` // of what the sections hold; the back-end's own count
	Job         string            `json:"job"`    // uuid
	Incarnation string            `json:"incarnation"`
	Rank        int               `json:"rank"`
	Size        int               `json:"size"`       // ranks of the job
	Seq         int               `json:"seq"`        // sequence number of the snapshot
	Arch        string            `json:"arch"`       // GOARCH
	BigEndian   bool              `json:"big_endian"` // byte order of the payload
	Backend     string            `json:"backend"`    // "self", "native"
	BuildID     string            `json:"build_id,omitempty"`
	Program     string            `json:"program,omitempty"`
	Host        string            `json:"host,omitempty"`
	Go          string            `json:"go,omitempty"` // version of Go the program was built with
	Created     time.Time         `json:"created"`
	Point       uint64            `json:"point,omitempty"`    // number of the Point it was taken at
	Contexts    map[string]string `json:"contexts,omitempty"` // communicators: context -> creation path
	Params      map[string]string `json:"params,omitempty"`   // whatever else the writer wants to note
}

// LocalMeta returns a Meta with what this process knows of itself: the
// architecture, its byte order, the version of Go and the time.
func LocalMeta() Meta {
	return Meta{
		Arch:      runtime.GOARCH,
		BigEndian: HostBigEndian,
		Go:        runtime.Version(),
		Created:   time.Now().UTC().Truncate(time.Millisecond),
	}
}

func (m Meta) encode() ([]byte, error) {
	m.Program = rawstring.Escape(m.Program)
	p, err := json.Marshal(m)
	if err != nil {
		return nil, err
	}
	if len(p) > maxMeta {
		return nil, fail(ErrTooLarge, "meta of %d bytes, at most %d", len(p), maxMeta)
	}
	return p, nil
}

func decodeMeta(p []byte, h header) (Meta, error) {
	if checksum(p) != h.metaSum {
		return Meta{}, fail(ErrCorrupt, "checksum of meta")
	}
	var m Meta
	if err := json.Unmarshal(p, &m); err != nil {
		return Meta{}, fail(ErrCorrupt, "meta: %v", err)
	}
	m.Program = rawstring.Unescape(m.Program)
	if m.BigEndian != h.bigEndian {
		return Meta{}, fail(ErrCorrupt, "header and meta name different byte orders")
	}
	return m, nil
}
