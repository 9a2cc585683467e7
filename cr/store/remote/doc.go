// Package remote reads a store at the other end of a stream.
//
// A Server answers a Client. Both are driven from outside: frames that come are given to Handle, and frames that
// are to go are given to a function. So they share whatever stream two processes have. Head, agents and keepers
// carry them in frames of package oob.
//
//	Client                         Server
//	  | open(store, set, piece) -->  |
//	  | <---------- handle, size     |
//	  | read(handle, off, n) ----->  |   several are under way, Window bytes in all
//	  | read(handle, off, n) ----->  |
//	  | <------------------- bytes   |   in any order
//	  | close(handle) ------------>  |   no answer
//
// # A frame
//
// Numbers are little-endian. Strings have a length of 16 bits before them.
//
//	 0 op      u8    1 open 2 read 3 close 4 stat 5 list 6 sets 7 remove 8 check
//	 1 status  u8    of an answer: 1 done, 2 still at it, from 16 on an error; 0: a request
//	 2 -       u16
//	 4 id      u32   of the request, given by the client, again in its answer
//	 8 sum     u32   CRC32C of the frame without these four bytes
//	12 body
//
//	op      request                        answer
//	open    store, set, piece              handle u32, size u64
//	read    handle u32, off u64, n u32     the bytes; fewer only at the end of the piece
//	close   handle u32                     -
//	stat    store, set, piece              JSON of store.Info
//	list    store, set                     JSON of []store.Info
//	sets    store, prefix                  JSON of []string
//	remove  store, set                     -
//	check   store, set, piece, whole u8    JSON of Checked
//
// An error is its text; the status says which of the errors of package store it is.
//
// # Flow, and who waits for whom
//
// A server sends what it was asked for and no more, so a client bounds what comes: it asks for at most Window
// bytes at a time, and for MaxRead in one frame. A server holds at most maxPending requests and maxHandles open
// pieces of a client. One that asks for more breaks the protocol, and is cut off. So neither side can make
// the other take memory, and other traffic on the stream waits for Window bytes at most.
//
// A request that takes long is answered "still at it" once a second. A client that hears nothing of a request for
// Silence takes the other side for lost, for this request and all others: store.ErrUnreachable. So it does when
// the stream ends (Close). A request that is given up counts until it is answered.
//
// # Trust
//
// Who may connect is decided below. A client's names are checked (store.CheckSet, CheckPiece), so they lead
// nowhere but into the stores that the server has for it. A server's answers are checked for length and sum. That
// they are the right bytes is for the reader to check by a digest it has from elsewhere.
//
// A frame that is none, or of another sum, is ErrFrame: whoever drives ends the stream.
package remote

import (
	"errors"
	"time"
)

// Bounds.
const (
	Window     = 1 << 20   // bytes that a client has asked for and not got
	MaxRead    = 256 << 10 // bytes of one read
	maxRequest = 2 << 10   // bytes of a request
	maxAnswer  = 4 << 20   // bytes of an answer that is not of a read
	maxText    = 1 << 10   // bytes of an error's text
	maxPending = 64        // requests of a client under way
	maxHandles = 64        // open pieces of a client
	workers    = 4         // requests of a client worked on at once
)

// Silence is for how long a request may be unanswered.
const Silence = 30 * time.Second

// alive is how often a server that works on a request says so.
const alive = time.Second

// ErrFrame says that the other side has broken the protocol.
var ErrFrame = errors.New("malformed frame of a remote store")
