// Package wire is shared by head and agents: the queue of frames on their stream, the order to
// start ranks, and the types and names that both use.
package wire

import (
	"encoding/json"
	"fmt"
	"os"
	"runtime"

	"github.com/gorun-mpi/gorun/cr/whole"
	"github.com/gorun-mpi/gorun/internal/job/bind"
	"github.com/gorun-mpi/gorun/internal/protocol/oob"
	"github.com/gorun-mpi/gorun/internal/system/endian"
	"github.com/gorun-mpi/gorun/internal/system/rawstring"
	"github.com/gorun-mpi/gorun/launcher"
)

// Order is the data of a Spawn frame: first the fields that every agent needs, then those that
// only gorun's own agents know.
type Order struct {
	oob.SpawnConfig
	Stdin       bool              `json:"stdin"`       // rank 0 gets a pipe, Input frames follow
	Lines       bool              `json:"lines"`       // it gets them line by line, see stdio.Pipe
	Interactive bool              `json:"interactive"` // half a line is passed on when nothing follows it soon
	Cleanup     rawstring.Strings `json:"cleanup"`     // to be removed by the agent if the head dies
	Control     rawstring.String  `json:"control"`     // the job's control folder, removed in the same case
	Host        string            `json:"host"`

	Imager    string             `json:"imager,omitempty"` // the back-end that images whole processes
	Track     bool               `json:"track,omitempty"`  // an image may build on the one before
	Stores    map[string]Store   `json:"stores,omitempty"` // that images go into and come from, by name
	Nodes     []oob.Node         `json:"nodes,omitempty"`  // of every Start: long in a large job, so it is sent once
	Images    map[int][]Image    `json:"images,omitempty"` // restart: by rank, its image and what that builds on, the newest first
	Shelf     []Image            `json:"shelf,omitempty"`  // restart with another number of ranks: by rank of the snapshot, its image
	Files     whole.FilesPolicy  `json:"files,omitempty"`
	Shared    []whole.SharedFile `json:"shared,omitempty"`     // restart of whole processes: files that several ranks write to
	Devices   []string           `json:"devices,omitempty"`    // restart of whole processes: the names of the devices that theirs are put on in turn; none: those where they were
	Onto      [2]string          `json:"onto,omitzero"`        // move: the name of a device, and of the one that is used in its place
	Sharing   string             `json:"sharing,omitempty"`    // how devices are shared with other processes: "share", "exclusive", or not at all
	MigrateOn string             `json:"migrate_on,omitempty"` // a command whose lines say what is to leave this node (Alarm); the first agent of a node that has ranks runs it
	Held      []int              `json:"held,omitempty"`       // ranks that wait for a debugger
	Bind      *bind.Rule         `json:"bind,omitempty"`       // nil: ranks are not bound to CPUs
}

// Store is a store as an agent opens it.
type Store struct {
	Kind   string           `json:"kind"`   // as in the URL of a store: dir, node, mem, s3
	Folder rawstring.String `json:"folder"` // on the agent's node
	Node   string           `json:"node"`   // the agent's, for kind node
}

// Image is an image of one rank. It is a file, or a piece of a store.
type Image struct {
	Seq    int              `json:"seq"`             // of its snapshot
	Path   rawstring.String `json:"path,omitempty"`  // of the file
	Store  string           `json:"store,omitempty"` // by its name in Order.Stores
	Set    string           `json:"set,omitempty"`
	Piece  string           `json:"piece,omitempty"`
	Digest string           `json:"digest,omitempty"`
	Node   string           `json:"node,omitempty"` // that wrote it
	Or     []Image          `json:"or,omitempty"`   // further copies of it: any good one is used
}

// Bring is the data of a Bring frame: images that a later order builds on.
type Bring struct {
	Stores map[string]Store `json:"stores"`
	Images []Image          `json:"images"`
}

// Names of stores in orders.
const (
	StoreTo   = "to"   // the store for further images
	StoreMem  = "mem"  // the store for images kept in memory
	StoreFrom = "from" // the store of the images that a life begins with; further places are from2, from3, ...
)

// StoreAt is the name of one node's part of a store, in an agent's request to the head.
func StoreAt(name, node string) string { return name + "@" + node }

// Hello is the greeting of this process in the role given.
func Hello(role string) oob.Msg {
	h := oob.HelloInfo{Role: role, PID: os.Getpid(), Arch: runtime.GOARCH, BigEndian: endian.Big, Library: launcher.Version}
	return oob.Msg{Kind: oob.Hello, A: oob.VersionMin, B: oob.VersionMax, Data: JSON(h)}
}

// JSON encodes a value of gorun's own types, which cannot fail.
func JSON(v any) []byte {
	data, err := json.Marshal(v)
	if err != nil {
		panic(err)
	}
	return data
}

// MoreAgents is the remedy for an agent that has run out of descriptors.
const MoreAgents = "use more -agents"

// BackendSelf is the back-end whose images a rank reads itself.
const BackendSelf = "self"

// ID is an incarnation as people and files name it.
func ID(id uint64) string { return fmt.Sprintf("%016x", id) }

// Hostname is the name of this machine.
func Hostname() string {
	n, err := os.Hostname()
	if err != nil {
		return "localhost"
	}
	return n
}
