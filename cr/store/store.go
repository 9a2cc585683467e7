// Package store is the interface of the places where images lie. Package snapshot keeps the catalogue: which
// snapshots there are and which are whole. A store keeps their bytes.
//
// A store holds sets, and a set holds pieces. A set is what the ranks of one snapshot have written. A piece is
// one image. Sets and pieces have names and no paths (see Set and Piece), so they mean the same on every node.
//
//	head                    who images a rank                   head
//	 Begin(set)
//	                         Create(set, piece)
//	                           WriteAt, WriteAt ...
//	                           Commit(size)     the piece is whole and durable
//	                                                             Commit(set)  so are the names of its pieces
//	                                                             schema written: the snapshot counts
//
// A store whose kind is not Shared lies in parts on the nodes. There each process that creates pieces also
// calls Begin before the first one and Commit after the last one.
//
// # What is atomic, what is durable
//
//   - A piece is whole or absent. Until its Commit it is not found by Open, Stat or List. A writer
//     that dies leaves nothing but a leftover, which goes with its set.
//   - A piece that Commit has made is durable. Its name is so only after Commit of its set. This is one call for
//     all pieces, because it costs a wait for the disk.
//   - A set has no state of its own. Whether it belongs to a snapshot, is being written or was left by a crash
//     is known to the catalogue alone: the schema is written last, and a lock tells who writes. So Remove may
//     be interrupted anywhere and called again.
//
// # Who calls what
//
// A store is safe for concurrent use, also by several processes. A Writer's WriteAt is, too. Begin,
// Create and Commit are for the job that owns the set. Remove is for who holds the lock of the
// set's job in the catalogue. Any process may read. What is read of another node is checked on
// arrival by the sums of the stream; whether it is the right image is checked by its digest, which
// the schema has.
//
// # Kinds
//
// Dir, in this package, is a folder that all nodes see. Package node is a folder on each node. A further kind is a
// package below this one that passes the tests of package storetest.
//
// What only some kinds can do is an interface of its own: Filer and Pather (files of this machine), snapshot.Checker
// (checks where the bytes are). Back-ends write to an image.Target and read an image.Source. Where these are no files, a
// rank reaches them through its agent (package imagepipe).
package store

import (
	"context"
	"errors"
	"io"
	"os"
)

// Store is a place for images.
//
// Errors wrap fs.ErrNotExist where a set or a piece is missing, fs.ErrExist where one is there already, ErrName
// for a name that is none, ErrUnreachable if a node that may have it does not answer, and else those of the
// system.
type Store interface {
	Reading
	// Kind is the name by which users and schemas know it: "dir", "node".
	Kind() string
	// Shared reports whether all nodes see what one has written. Then the head alone calls Begin and Commit.
	Shared() bool
	// Begin makes an empty set. It is fs.ErrExist if the set is there.
	Begin(ctx context.Context, set string) error
	// Create begins a piece of a set that was begun. A piece of this name that is there is replaced when
	// the new one is whole.
	Create(ctx context.Context, set, piece string, opt Options) (Writer, error)
	// Commit makes the names of all pieces durable that this process has created in the set.
	Commit(ctx context.Context, set string) error
	// Remove removes a set, or all sets whose names begin with this one and an element more. A
	// missing piece is not an error. What cannot be removed is an error that names it; the rest is
	// removed.
	Remove(ctx context.Context, set string) error
}

// Reading is the part of a Store that changes nothing.
type Reading interface {
	// Open opens a piece for reading at any offset.
	Open(ctx context.Context, set, piece string) (Reader, error)
	// Stat tells the size of a piece and who has it.
	Stat(ctx context.Context, set, piece string) (Info, error)
	// List lists the pieces of a set by name. One that lies on several nodes is listed once for each.
	List(ctx context.Context, set string) ([]Info, error)
	// Sets lists the sets whose names begin with a prefix and one element more, in order.
	Sets(ctx context.Context, prefix string) ([]string, error)
}

// Info describes a piece.
type Info struct {
	Name string // within its set
	Size int64  // bytes
	Node string // that has it; "": all have, or there is but one
}

// Options say how a piece is written.
type Options struct {
	NoDirect bool // through the page cache even where it could be passed by
	Passing  bool // it is read soon and then removed: Commit does not wait until it is durable

	Size int64 // bytes that it will have, about; 0: not known. A store that cannot have them says so now
}

// Writer writes one piece. Ranges may be written in any order and by several goroutines at once; they do not
// overlap. Commit or Abort ends it and is called once, after them.
type Writer interface {
	io.WriterAt
	// Commit ends the piece at size, waits until it is durable and gives it its name. After an error nothing
	// of it is left.
	Commit(size int64) error
	// Abort gives up.
	Abort() error
}

// Reader reads one piece. ReadAt may be called by several goroutines at once.
type Reader interface {
	io.ReaderAt
	io.Closer
	Size() int64
}

// Filer is what a Writer or a Reader has besides if its piece is a file of this machine. Whoever can make use of
// the descriptor may do so (O_DIRECT, copy_file_range, mmap), at offsets of the piece. It must neither close it
// nor move its file position.
type Filer interface {
	File() *os.File
}

// Pather is what a Store has besides if pieces are files of this machine: programs that know of files only
// write and read there. A piece is written by PartFile under this path, as Create does, unless the store is a Lender.
type Pather interface {
	Path(set, piece string) (string, error)
}

// Lender is what a Store has besides if pieces are written into slots. A program that can only use
// files writes its piece by Slot to a path that it is lent.
type Lender interface {
	// Lend lends a slot for a piece of a set that was begun.
	Lend(ctx context.Context, set, piece string, opt Options) (Lent, error)
}

// Lent is a slot that is lent. One of Commit and Abort is called when the Slot has ended.
type Lent struct {
	Path   string                  // for OpenSlot
	Grow   func(bytes int64) error // tells the size of the piece before it is written, where that was not known; the error says that it does not fit
	Commit func() error            // gives the piece its name, once the Slot was committed
	Abort  func() error            // gives the slot back
}

// Reasons for errors, for errors.Is.
var (
	ErrName        = errors.New("not a name of a set or a piece")
	ErrUnreachable = errors.New("a node does not answer")
	ErrReadOnly    = errors.New("it can only be read from here")
	ErrClosed      = errors.New("already committed or given up")
	ErrKey         = errors.New("key file") // it is missing, or cannot be one, or something was sealed with another key
)
