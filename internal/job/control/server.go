package control

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"github.com/gorun-mpi/gorun/internal/system/accept"
)

// Server is where commands find the head: its control folder and its name.
type Server struct {
	serveOne func(*Request, chan Reply) // answers a request: exactly one reply without progress
	over     <-chan struct{}            // closed when the job has ended and all replies were given
	named    *net.UnixListener          // at the job's name; nil: the kernel has refused it
	first    string                     // the first incarnation

	mu      sync.Mutex
	rec     Record
	folder  *folder // nil: there is none now
	closed  bool
	clients sync.WaitGroup // that wait for a reply
}

// folder is a control folder with its socket.
type folder struct {
	dir  string
	held *os.File // locked
	ln   *net.UnixListener
}

// Open makes a job known: by its name, and in the first place that can have a control folder. If
// there is none the name has to suffice, and why says what is wrong with the places.
func Open(rec Record, serve func(*Request, chan Reply), over <-chan struct{}) (c *Server, why, err error) {
	rec.Realm = realm()
	c = &Server{rec: rec, first: rec.Incarnation, serveOne: serve, over: over}
	var nerr error
	if c.named, nerr = listen(nameOf(rec.Job, c.first)); nerr == nil {
		go c.accept(c.named)
	}
	if c.folder, why = c.makeFolder(); why != nil && nerr != nil {
		return nil, nil, fmt.Errorf("commands could not find this job: %w; %w", nerr, why)
	}
	go c.watch()
	return c, why, nil
}

// listen opens a socket.
func listen(path string) (*net.UnixListener, error) {
	ln, err := net.ListenUnix("unix", &net.UnixAddr{Net: "unix", Name: path})
	if err != nil {
		return nil, fmt.Errorf("control socket: %w", err)
	}
	ln.SetUnlinkOnClose(false) // the folder is removed as a whole
	return ln, nil
}

// makeFolder makes a control folder in the first place that can have one. Caller has the lock, or
// is alone.
func (c *Server) makeFolder() (*folder, error) {
	var whys []string
	for _, place := range Places() {
		f, err := c.makeIn(place)
		if err == nil {
			return f, nil
		}
		whys = append(whys, err.Error())
	}
	return nil, fmt.Errorf("there is no place for a control folder (%s): free one of them, or set GORUN_DIR to a folder of yours on a local disk", strings.Join(whys, "; "))
}

// makeIn makes a control folder in a place.
func (c *Server) makeIn(place string) (*folder, error) {
	dir, held, err := NewFolder(place, c.first)
	if err != nil {
		return nil, err
	}
	f := &folder{dir: dir, held: held}
	if f.ln, err = listen(within(held, socketName)); err == nil {
		err = os.Chmod(within(held, socketName), 0o700)
	}
	if err == nil { // the job is known by its record: now it answers
		err = c.rec.Write(dir)
	}
	if err != nil {
		return nil, errors.Join(err, f.give())
	}
	go c.accept(f.ln)
	return f, nil
}

// give gives a control folder up, with what is left of it.
func (f *folder) give() error {
	err := RemoveFolder(f.dir)
	if f.ln != nil {
		f.ln.Close()
	}
	f.held.Close()
	return err
}

// whole reports whether a control folder is where it was, with its entries.
func (f *folder) whole() bool {
	if !same(f.held, f.dir) {
		return false
	}
	for _, name := range []string{recordName, socketName} {
		if _, err := os.Lstat(filepath.Join(f.dir, name)); err != nil {
			return false
		}
	}
	return true
}

// watchEvery is how often the head looks after its control folder.
const watchEvery = time.Second

// watch makes a vanished control folder again. The end of a session removes its runtime folder, and
// a cleaner of /tmp may remove others.
func (c *Server) watch() {
	t := time.NewTicker(watchEvery)
	defer t.Stop()
	for {
		select {
		case <-t.C:
			c.look()
		case <-c.over:
			return
		}
	}
}

// look is one look of watch.
func (c *Server) look() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed || c.folder != nil && c.folder.whole() {
		return
	}
	if c.folder != nil {
		c.folder.give()
	}
	c.folder, _ = c.makeFolder()
}

// Dir is the control folder, "" if there is none now.
func (c *Server) Dir() string {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.folder == nil {
		return ""
	}
	return c.folder.dir
}

// Update changes the record. If it cannot be written any more the old one is removed: commands then
// ask by the job's name.
func (c *Server) Update(change func(*Record)) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	change(&c.rec)
	if c.folder == nil {
		return nil
	}
	err := c.rec.Write(c.folder.dir)
	if err == nil || c.named == nil {
		return err
	}
	c.folder.give()
	c.folder, _ = c.makeFolder()
	return nil
}

// Remove removes the folder. Replies to clients go on.
func (c *Server) Remove() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.closed = true // no other is made
	if c.folder == nil {
		return nil
	}
	return RemoveFolder(c.folder.dir)
}

// Close ends the sockets when the last replies are written. The job has ended, so all replies are
// there. It does not wait for a client that does not read.
func (c *Server) Close() {
	c.mu.Lock()
	c.closed = true
	f := c.folder
	c.mu.Unlock()
	if c.named != nil {
		c.named.Close()
	}
	if f != nil {
		f.ln.Close()
	}
	told := make(chan struct{})
	go func() { c.clients.Wait(); close(told) }()
	select {
	case <-told:
	case <-time.After(time.Second):
	}
	if f != nil {
		f.held.Close()
	}
}

// enter counts a client in, unless it came too late.
func (c *Server) enter() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.closed {
		c.clients.Add(1)
	}
	return !c.closed
}

func (c *Server) accept(ln *net.UnixListener) {
	accept.Each(ln.AcceptUnix, func(conn *net.UnixConn) { go c.client(conn) })
}

// client answers one request, of this user or of root. Other users cannot enter the folder, but can
// connect to the name.
func (c *Server) client(conn *net.UnixConn) {
	defer conn.Close()
	enc := json.NewEncoder(conn)
	if err := sameUser(conn); err != nil {
		conn.SetWriteDeadline(time.Now().Add(time.Second))
		enc.Encode(Reply{Error: err.Error()})
		return
	}
	conn.SetReadDeadline(time.Now().Add(10 * time.Second))
	line, err := bufio.NewReader(conn).ReadBytes('\n')
	if err != nil {
		return
	}
	conn.SetReadDeadline(time.Time{})
	var q Request
	if err := json.Unmarshal(line, &q); err != nil {
		enc.Encode(Reply{Error: "request not understood: " + err.Error()})
		return
	}
	if q.Verb == verbRecord {
		c.mu.Lock()
		rec := c.rec
		c.mu.Unlock()
		enc.Encode(Reply{Record: &rec})
		return
	}
	if !c.enter() {
		return
	}
	defer c.clients.Done()
	replies := make(chan Reply, 64)
	c.serveOne(&q, replies)
	for {
		select {
		case r := <-replies:
			if enc.Encode(r) != nil || r.last() {
				return
			}
		case <-c.over:
			for {
				select {
				case r := <-replies:
					enc.Encode(r)
				default:
					return
				}
			}
		}
	}
}

func sameUser(conn *net.UnixConn) error {
	cred, err := peer(conn)
	if err != nil {
		return err
	}
	if int(cred.Uid) != os.Getuid() && cred.Uid != 0 {
		return fmt.Errorf("this job belongs to user %d", os.Getuid())
	}
	return nil
}
