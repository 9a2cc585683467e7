package cr

import (
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/gorun-mpi/gorun/cr/image"
	"github.com/gorun-mpi/gorun/cr/self"
	"github.com/gorun-mpi/gorun/internal/protocol/oob"
	"github.com/gorun-mpi/gorun/internal/rank/engine"
	"github.com/gorun-mpi/gorun/internal/rank/job"
	"github.com/gorun-mpi/gorun/internal/storage/imagepipe"
)

// backend lets the checkpoint goroutine of a rank reach its Registry.
type backend struct{ r *Registry }

func (b *backend) Ready() error {
	if len(b.r.reg.Names()) == 0 {
		return job.ErrNothing
	}
	return nil
}

// Before also gets the memory for the copy. The gate is still open then, and messages flow.
func (b *backend) OnCheckpoint() error { return b.r.call(&b.r.checkpoint) }

func (b *backend) Before() error {
	if err := b.r.fetchAll(); err != nil {
		return err
	}
	if err := b.r.noteFiles(); err != nil {
		return err
	}
	return b.r.reg.Prepare()
}

// fetchAll makes all variables valid in the program's memory.
func (r *Registry) fetchAll() error {
	r.mu.Lock()
	all := r.fetch[:len(r.fetch):len(r.fetch)]
	r.mu.Unlock()
	for _, v := range all {
		if err := v.fetch(); err != nil {
			return fmt.Errorf("variable %q: %w", v.name, err)
		}
	}
	return nil
}

func (b *backend) After() error { return b.r.call(&b.r.cont) }

// FirstPoint ends the restart. It gives the saved messages to the engine no earlier, because messages that the
// program sends to itself during set-up, or in a function of Rebuild, must not meet them.
func (b *backend) FirstPoint() error {
	r := b.r
	_, err := r.j.Origin() // what it notes is kept, and the image is closed
	if err == nil {
		err = b.Claimed()
	}
	if err == nil {
		err = r.settle()
	}
	if err != nil {
		r.j.FailRestart(err)
		return r.named(err)
	}
	if err := r.call(&r.rebuild); err != nil {
		return err
	}
	if err := r.takeUp(); err != nil {
		r.j.FailRestart(err)
		return r.named(err)
	}
	return r.call(&r.restart)
}

// takeUp takes the saved messages, and closes the image.
func (r *Registry) takeUp() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.j.Engine.Inject(r.restore.Messages())
	err := r.restore.Close()
	r.restore = nil
	return err
}

func (b *backend) Noted(key string) (string, error) {
	b.r.mu.Lock()
	defer b.r.mu.Unlock()
	if err := b.r.open(); err != nil {
		return "", err
	}
	return b.r.restore.Meta().Params[key], nil
}

func (b *backend) Claimed() error {
	b.r.mu.Lock()
	defer b.r.mu.Unlock()
	return b.r.claimed()
}

// claimed checks that the program has taken everything that the image holds. It tells the user which other
// variables the program has registered. Caller holds mu.
func (r *Registry) claimed() error {
	if err := r.open(); err != nil {
		return err
	}
	var lost []string
	for _, name := range r.restore.Unclaimed() {
		lost = append(lost, fmt.Sprintf("variable %q", name))
	}
	seen := map[string]bool{}
	for _, m := range r.restore.Messages() {
		if _, ok := r.j.ContextPath(m.Ctx); ok {
			continue
		}
		key := job.ContextKey(m.Ctx)
		path := r.restore.Meta().Contexts[key]
		if path == "" {
			path = "context " + key
		}
		if !seen[path] {
			seen[path] = true
			lost = append(lost, fmt.Sprintf("communicator %s with saved messages", path))
		}
	}
	fresh := ""
	if len(r.fresh) > 0 {
		fresh = fmt.Sprintf("%q", r.fresh)
	}
	if lost == nil {
		if fresh != "" {
			fmt.Fprintf(os.Stderr, "rank %d: not in the image, and left as the program has set them: %s\n", r.j.Rank, fresh)
		}
		return nil
	}
	if fresh != "" {
		fresh = "; it has registered what the image does not hold: " + fresh
	}
	return fmt.Errorf("%w: the program has not claimed by its first Point: %s%s: register the variables and create the communicators before it, as in the run that was saved",
		ErrMismatch, strings.Join(lost, ", "), fresh)
}

// noCollective refuses a cut that goes through a collective's messages.
func (r *Registry) noCollective(saved []engine.Saved) error {
	for _, m := range saved {
		if m.Ctx&1 != 0 {
			return r.j.ThroughCollective(m.Ctx, m.Source, true)
		}
	}
	return nil
}

func (b *backend) Capture(cfg oob.CaptureConfig, saved []engine.Saved, point uint64) (job.Snapshot, error) {
	codec, err := image.ParseCodec(cfg.Codec)
	if err != nil {
		return nil, err
	}
	if err := b.r.noCollective(saved); err != nil {
		return nil, err
	}
	c, err := b.r.reg.Copy()
	if err != nil {
		return nil, fmt.Errorf("copying the registered state: %w", err)
	}
	files, err := b.r.unsynced()
	if err != nil {
		c.Release()
		return nil, err
	}
	j := b.r.j
	nodes, err := j.Origin()
	if err != nil {
		c.Release()
		return nil, err
	}
	return &snapshot{
		copy: c, saved: saved, files: files, path: string(cfg.Path), slot: cfg.Slot, codec: codec,
		meta: image.Meta{
			Job: j.ID(), Incarnation: fmt.Sprintf("%016x", j.Incarnation()),
			Rank: j.Rank, Size: j.Size, Seq: cfg.Seq,
			Arch: runtime.GOARCH, BigEndian: image.HostBigEndian, Backend: "self",
			Program: program(), Created: time.Now().UTC(), Point: point, Contexts: j.Contexts(),
			Params: map[string]string{job.NodesKey: job.FormatNodes(nodes)},
		},
	}, nil
}

func program() string {
	p, err := os.Executable()
	if err != nil {
		return os.Args[0]
	}
	return p
}

// smallImage is the size in bytes below which one goroutine writes an image. More would only take processors
// from ranks that compute.
const smallImage = 16 << 20

// snapshot is a copied state on its way to its file.
type snapshot struct {
	copy  *self.Copy
	saved []engine.Saved
	meta  image.Meta
	path  string
	slot  bool // the path is a slot of memory
	codec image.Codec
	files []int // descriptors of the files whose places it holds
}

func (s *snapshot) Bytes() uint64 {
	n := s.copy.Bytes()
	for _, m := range s.saved {
		n += uint64(len(m.Data))
	}
	return n
}

// Write leaves the folder's fsync to the commit, which makes all names durable at once.
func (s *snapshot) Write(progress func(uint64), cancel <-chan struct{}) (oob.ImageInfo, error) {
	for _, fd := range s.files {
		if err := unix.Fsync(fd); err != nil {
			return oob.ImageInfo{}, fmt.Errorf("a file of cr.File: writing it to the disk: %w", err)
		}
	}
	opt := image.Options{Codec: s.codec, NoFolder: true, Slot: s.slot}
	if s.Bytes() < smallImage {
		opt.Workers = 1
	}
	sum, err := s.copy.Write(imagepipe.File(s.path), s.meta, s.saved, opt, progress, cancel)
	if err != nil {
		return oob.ImageInfo{}, err
	}
	return oob.ImageInfo{File: filepath.Base(s.path), Size: sum.Size, Digest: sum.Digest, Codec: string(sum.Codec), CPU: int64(sum.CPU)}, nil
}

func (s *snapshot) Release() {
	closeAll(s.files)
	s.copy.Release()
}
