// Package imagepipe lets a process write and read images in stores that only its parent has opened.
// Ranks know only files. The stores of an agent may be something else, and need libraries that a
// rank should not be linked with.
//
//	agent                                    rank
//	 o := Offer(create or source)
//	 o.Path  ------- where the path of an ->   imagepipe.File(path): Target and Source,
//	                 image was                 a file if the path is one
//	         <------ connects ------------
//	         <------ frames --------------     write, end; or size, read
//	         ------- answers ------------>
//
// The path does not name a file: it lies below /dev/null, so a program of an older gorun fails to
// open it, with an error that names it. Behind it is an abstract Unix socket. Its name is random,
// but any user can see it, so both sides check whether the other belongs to the same user.
//
// # Protocol
//
// Frames are big-endian. Those of the rank:
//
//	kind  byte    'w' write, 'e' end, 's' size, 'r' read, 'o' open
//	off   uint64  in the piece; e: its size; o: a rank
//	n     uint32  bytes, at most 1 MB; w: they follow; r: that are wanted; e, s: 0; o: which copy
//
// A Shelf has the images of all ranks of a snapshot. There o comes first and selects one. The
// answer is the path of a file that the rank reads itself, or empty: s and r follow; or 2: there is
// no such copy.
//
// Those of the agent answer e, s, r and o, and say once if a write has failed:
//
//	status byte   0: done, 1: failed, 2: the piece ends here
//	n      uint32 bytes that follow: of the piece, or the text of the error; s: its size, as 8 bytes
//
// A connection that ends before 'e' was answered gives the piece up.
package imagepipe

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"

	"golang.org/x/sys/unix"

	"github.com/gorun-mpi/gorun/cr/image"
	"github.com/gorun-mpi/gorun/cr/store"
	"github.com/gorun-mpi/gorun/internal/system/accept"
)

// prefix begins the paths of outlets. No file can lie there.
const prefix = "/dev/null/gorun-outlet/"

// ErrProtocol says that the other side has broken the protocol.
var ErrProtocol = errors.New("malformed frame of an image's stream")

// ErrStranger says that the other side belongs to another user.
var ErrStranger = errors.New("the other side of an image's stream belongs to another user")

// Pipe is offered to child processes until it is closed. One connection writes the piece; any number read it.
type Pipe struct {
	Path string // for the child

	l      *net.UnixListener
	ctx    context.Context // ends with it
	end    context.CancelFunc
	create func(context.Context) (store.Writer, error)
	source func(context.Context) (store.Reader, error)
	find   Find

	mu     sync.Mutex
	conns  map[net.Conn]bool // nil: closed
	served sync.WaitGroup
}

// Writer offers a piece that is to be written. create is called when the child begins it. Its context ends with the
// offer.
func Writer(piece string, create func(context.Context) (store.Writer, error)) (*Pipe, error) {
	return offer(piece, &Pipe{create: create})
}

// Reader offers a piece to be read. source is called for each connection. Its context ends with the offer.
func Reader(piece string, source func(context.Context) (store.Reader, error)) (*Pipe, error) {
	return offer(piece, &Pipe{source: source})
}

// Find finds a copy, counted from 0, of the image of a rank. It returns the path of a file that the child can read, or a
// reader, which is the outlet's. io.EOF: there is no such copy.
type Find func(ctx context.Context, rank, copy int) (path string, r store.Reader, err error)

// Shelf offers the images of all ranks of a snapshot. find is called for each connection, with a context that ends with the
// offer. The child opens them through a Library.
func Shelf(find Find) (*Pipe, error) { return offer("images", &Pipe{find: find}) }

func offer(piece string, o *Pipe) (*Pipe, error) {
	if err := store.CheckPiece(piece); err != nil {
		return nil, err
	}
	var tag [16]byte
	rand.Read(tag[:]) // it never fails
	name := hex.EncodeToString(tag[:])
	l, err := net.ListenUnix("unix", address(name))
	if err != nil {
		return nil, fmt.Errorf("a socket for the image of a rank: %w", err)
	}
	o.ctx, o.end = context.WithCancel(context.Background())
	o.Path, o.l, o.conns = prefix+name+"/"+piece, l, map[net.Conn]bool{}
	o.served.Go(o.accept)
	return o, nil
}

func address(name string) *net.UnixAddr {
	return &net.UnixAddr{Net: "unix", Name: "@gorun-outlet-" + name}
}

// Close ends the offer. A piece that is being written is given up. It returns when all its
// goroutines have ended.
func (o *Pipe) Close() {
	o.end()
	o.l.Close()
	o.mu.Lock()
	for c := range o.conns {
		c.Close()
	}
	o.conns = nil
	o.mu.Unlock()
	o.served.Wait()
}

func (o *Pipe) accept() {
	accept.Each(o.l.AcceptUnix, func(c *net.UnixConn) {
		o.mu.Lock()
		defer o.mu.Unlock()
		if o.conns == nil || sameUser(c) != nil {
			c.Close()
			return
		}
		o.conns[c] = true
		o.served.Go(func() { o.serve(c) })
	})
}

func (o *Pipe) serve(c net.Conn) {
	defer func() {
		o.mu.Lock()
		delete(o.conns, c)
		o.mu.Unlock()
		c.Close()
	}()
	switch {
	case o.find != nil:
		serveShelf(c, func(rank, copy int) (string, store.Reader, error) { return o.find(o.ctx, rank, copy) })
	case o.create != nil:
		serveWriter(c, func() (store.Writer, error) { return o.create(o.ctx) })
	default:
		serveReader(c, func() (store.Reader, error) { return o.source(o.ctx) })
	}
}

// sameUser refuses a peer of another user.
func sameUser(c *net.UnixConn) error {
	raw, err := c.SyscallConn()
	if err != nil {
		return err
	}
	var cred *unix.Ucred
	if e := raw.Control(func(fd uintptr) { cred, err = unix.GetsockoptUcred(int(fd), unix.SOL_SOCKET, unix.SO_PEERCRED) }); e != nil {
		return e
	}
	if err == nil && int(cred.Uid) != os.Geteuid() {
		err = fmt.Errorf("%w (%d)", ErrStranger, cred.Uid)
	}
	return err
}

// File is the path of an image as a rank gets it: a file's or an outlet's.
type File string

var _ interface {
	image.Source
	image.Target
} = File("")

// Create begins the image.
func (f File) Create(m image.Meta, opt image.Options) (*image.Writer, error) {
	name, ok := f.outlet()
	if !ok {
		return image.Create(string(f), m, opt)
	}
	c, err := dial(name)
	if err != nil {
		return nil, &image.Error{Op: "write", Path: string(f), Err: err}
	}
	return image.NewWriter(&writer{c: c}, filepath.Base(string(f)), m, opt)
}

// Open opens the image.
func (f File) Open() (*image.Reader, error) {
	name, ok := f.outlet()
	if !ok {
		return image.Open(string(f))
	}
	r, err := newReader(name)
	if err != nil {
		return nil, &image.Error{Op: "read", Path: string(f), Err: err}
	}
	return image.OpenPiece(r, filepath.Base(string(f)))
}

// String is the path.
func (f File) String() string { return string(f) }

// outlet is the name of the socket, if it is one.
func (f File) outlet() (name string, ok bool) {
	rest, ok := strings.CutPrefix(string(f), prefix)
	name, _, two := strings.Cut(rest, "/")
	return name, ok && two
}

func dial(name string) (*net.UnixConn, error) {
	c, err := net.DialUnix("unix", nil, address(name))
	if err != nil {
		return nil, fmt.Errorf("its agent does not take it any more: %w", err)
	}
	if err := sameUser(c); err != nil {
		c.Close()
		return nil, err
	}
	return c, nil
}
