// Link measures the bare link between two nodes: TCP both ways at once, of memory that is in use into memory that is in
// use, without any sum.
//
//	link              listens, prints its port and serves one caller after the other until it is ended
//	link ADDRESS N    sends N megabytes there, gets as many and prints the seconds
package main

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"strconv"
	"time"
)

func main() {
	run := listen
	if len(os.Args) == 3 {
		run = call
	}
	if err := run(); err != nil {
		fmt.Fprintln(os.Stderr, "link:", err)
		os.Exit(1)
	}
}

func listen() error {
	l, err := net.Listen("tcp4", ":0")
	if err != nil {
		return err
	}
	fmt.Println(l.Addr().(*net.TCPAddr).Port)
	for {
		c, err := l.Accept()
		if err != nil {
			return err
		}
		var n uint64
		if err := binary.Read(c, binary.LittleEndian, &n); err != nil {
			return err
		}
		if err := both(c, int64(n)); err != nil {
			return err
		}
		c.Close()
	}
}

func call() error {
	mb, err := strconv.Atoi(os.Args[2])
	if err != nil {
		return err
	}
	c, err := net.Dial("tcp4", os.Args[1])
	if err != nil {
		return err
	}
	defer c.Close()
	n := int64(mb) << 20
	if err := binary.Write(c, binary.LittleEndian, uint64(n)); err != nil {
		return err
	}
	begin := time.Now()
	if err := both(c, n); err != nil {
		return err
	}
	fmt.Println(time.Since(begin).Seconds())
	return nil
}

// both sends and gets n bytes.
func both(c net.Conn, n int64) error {
	sent := make(chan error, 1)
	go func() {
		buf := touched()
		var err error
		for left := n; left > 0 && err == nil; left -= int64(len(buf)) {
			_, err = c.Write(buf[:min(int64(len(buf)), left)])
		}
		sent <- err
	}()
	buf := touched()
	var err error
	for left := n; left > 0 && err == nil; left -= int64(len(buf)) {
		_, err = io.ReadFull(c, buf[:min(int64(len(buf)), left)])
	}
	return errors.Join(err, <-sent)
}

// touched is a megabyte that the kernel has given already.
func touched() []byte {
	buf := make([]byte, 1<<20)
	for i := range buf {
		buf[i] = byte(i)
	}
	return buf
}
