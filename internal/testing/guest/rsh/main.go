// Rsh runs commands in another guest, as ssh does, for tests of jobs on several: anybody on the wire may do so.
//
//	rsh -serve ADDRESS                        in the one, from the start to the end
//	rsh [OPTIONS] [--] ADDRESS COMMAND...     in the other; ssh's options are passed over
//
// The connection begins with the command, as one line of JSON, and has its standard input then. What it writes comes back in pieces: one byte that says
// which of the outputs (1, 2), or that it has ended (0), and the length, or the status, in four.
package main

import (
	"bufio"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"strings"
	"sync"
)

// port is rsh's.
const port = "514"

func main() {
	args := os.Args[1:]
	if len(args) == 2 && args[0] == "-serve" {
		exit(1, serve(args[1]))
	}
	for len(args) > 0 && strings.HasPrefix(args[0], "-") {
		n := 1
		if args[0] == "-o" || args[0] == "-l" {
			n = 2
		}
		args = args[min(n, len(args)):]
	}
	if len(args) < 2 {
		exit(255, errors.New("no address, or no command"))
	}
	status, err := call(args[0], strings.Join(args[1:], " "))
	exit(255, err)
	os.Exit(status)
}

func exit(status int, err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, "rsh:", err)
		os.Exit(status)
	}
}

// call runs a command there, and returns its status.
func call(address, command string) (int, error) {
	c, err := net.Dial("tcp", net.JoinHostPort(address, port))
	if err != nil {
		return 0, err
	}
	defer c.Close()
	if err := json.NewEncoder(c).Encode(command); err != nil {
		return 0, err
	}
	go func() {
		_, _ = io.Copy(c, os.Stdin)
		_ = c.(*net.TCPConn).CloseWrite()
	}()
	in := bufio.NewReader(c)
	for {
		var head [5]byte
		if _, err := io.ReadFull(in, head[:]); err != nil {
			return 0, err
		}
		n := binary.LittleEndian.Uint32(head[1:])
		out := os.Stdout
		switch head[0] {
		case 0:
			return int(n), nil
		case 2:
			out = os.Stderr
		}
		if _, err := io.CopyN(out, in, int64(n)); err != nil {
			return 0, err
		}
	}
}

func serve(address string) error {
	l, err := net.Listen("tcp", net.JoinHostPort(address, port))
	if err != nil {
		return err
	}
	for {
		c, err := l.Accept()
		if err != nil {
			return err
		}
		go answer(c)
	}
}

// answer runs one command. It is the shell's, as ssh's are. When the caller is gone, its input has ended.
func answer(c net.Conn) {
	defer c.Close()
	in := bufio.NewReader(c)
	line, err := in.ReadBytes('\n')
	var command string
	if err != nil || json.Unmarshal(line, &command) != nil {
		return
	}
	var mu sync.Mutex
	cmd := exec.Command("/bin/sh", "-c", command)
	cmd.Stdout, cmd.Stderr = &output{c, &mu, 1}, &output{c, &mu, 2}
	stdin, err := cmd.StdinPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		_, _ = fmt.Fprintln(cmd.Stderr, err)
	} else {
		go func() {
			_, _ = io.Copy(stdin, in)
			_ = stdin.Close()
		}()
		_ = cmd.Wait()
	}
	status := uint32(255)
	if cmd.ProcessState != nil && cmd.ProcessState.Exited() {
		status = uint32(cmd.ProcessState.ExitCode())
	}
	mu.Lock()
	defer mu.Unlock()
	_, _ = c.Write(binary.LittleEndian.AppendUint32([]byte{0}, status))
}

// output is one of a command's.
type output struct {
	w    io.Writer
	mu   *sync.Mutex
	kind byte
}

func (o *output) Write(p []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if _, err := o.w.Write(binary.LittleEndian.AppendUint32([]byte{o.kind}, uint32(len(p)))); err != nil {
		return 0, err
	}
	return o.w.Write(p)
}
