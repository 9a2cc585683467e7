package export

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"slices"
)

// HDF5 writes arrays as datasets of the root group of an HDF5 file. The file has the oldest form, that every reader
// knows (HDF5 File Format Specification 3.0: superblock version 0, object headers version 1, contiguous data):
//
//	superblock            where the root group is
//	data                  of each dataset, at multiples of 8
//	object headers        of each dataset: dataspace, datatype, fill value, layout
//	local heap            the names
//	symbol table node     name and object header of each, in order of names
//	B-tree                of this one node, which is as large as it has to be
//	object header         of the root group
//
// Data are written as they come, the rest by Close.
type HDF5 struct {
	w    File
	at   uint64 // where the next bytes go
	sets []dataset
	err  error
}

// dataset is one whose data are written.
type dataset struct {
	name   string
	header []byte
	addr   uint64 // of the header
	link   uint64 // offset of the name in the heap
}

const (
	superblockSize = 96
	undefined      = ^uint64(0)
	internalK      = 16 // half the children of a node of the B-tree
	maxSets        = 1<<16 - 2
)

// NewHDF5 begins a file, which is empty.
func NewHDF5(w File) *HDF5 {
	h := &HDF5{w: w}
	h.put(make([]byte, superblockSize))
	return h
}

// put writes at the end, which is then a multiple of 8. It returns where it was written.
func (h *HDF5) put(p []byte) (addr uint64) {
	addr = h.at
	h.write(p)
	h.write(make([]byte, -h.at&7))
	return addr
}

func (h *HDF5) write(p []byte) error {
	if h.err == nil {
		_, h.err = h.w.Write(p)
	}
	h.at += uint64(len(p))
	return h.err
}

// Add writes an array under its name, which FileName makes a link.
func (h *HDF5) Add(a *Array) error {
	link := FileName(a.Name)
	if slices.ContainsFunc(h.sets, func(s dataset) bool { return s.name == link }) || len(h.sets) == maxSets {
		return fmt.Errorf("variable %q: HDF5 holds each name once, and %d of them", a.Name, maxSets)
	}
	addr, size := undefined, a.Bytes()
	if size > 0 {
		addr = h.at
		if err := a.each(h.write); err != nil {
			return err
		}
		h.put(nil)
	}
	layout := append([]byte{3, 1}, words(addr, size)...) // contiguous
	h.sets = append(h.sets, dataset{name: link, header: objectHeader(
		message{0x0001, dataspace(a.Shape)}, message{0x0003, datatype(a.Class, a.Size, a.BigEndian)},
		message{0x0005, []byte{2, 1, 0, 0}}, // early allocation, no fill value
		message{0x0008, layout},
	)})
	return h.err
}

// Close writes what is not data. The caller closes the file.
func (h *HDF5) Close() error {
	slices.SortFunc(h.sets, func(a, b dataset) int { return bytes.Compare([]byte(a.name), []byte(b.name)) })
	names := make([]byte, 8) // the empty name first
	for i := range h.sets {
		s := &h.sets[i]
		s.addr, s.link = h.put(s.header), uint64(len(names))
		names = append(names, s.name...)
		names = append(names, make([]byte, 8-len(s.name)%8)...)
	}
	heap := h.putHeap(names)
	tree := h.putTree(h.putNode())
	root := h.put(objectHeader(message{0x0011, words(tree, heap)}))

	b := append([]byte("\x89HDF\r\n\x1a\n"), 0, 0, 0, 0, 0, 8, 8, 0) // versions; sizes of offsets and lengths
	b = binary.LittleEndian.AppendUint16(b, h.leafK())
	b = binary.LittleEndian.AppendUint16(b, internalK)
	b = append(b, 0, 0, 0, 0)
	b = append(b, words(0, undefined, h.at, undefined)...) // base, free space, end of file, driver
	b = append(b, entry(0, root, 1)...)
	b = append(b, words(tree, heap)...)
	if h.err == nil {
		_, h.err = h.w.WriteAt(b, 0)
	}
	return h.err
}

// leafK is half of the entries of a symbol table node.
func (h *HDF5) leafK() uint16 { return uint16(max(4, (len(h.sets)+1)/2)) }

func (h *HDF5) putHeap(names []byte) uint64 {
	segment := h.put(names)
	return h.put(append([]byte("HEAP\x00\x00\x00\x00"), words(uint64(len(names)), 1, segment)...)) // 1: nothing is free
}

func (h *HDF5) putNode() uint64 {
	b := binary.LittleEndian.AppendUint16([]byte("SNOD\x01\x00"), uint16(len(h.sets)))
	for _, s := range h.sets {
		b = append(append(b, entry(s.link, s.addr, 0)...), make([]byte, 16)...)
	}
	return h.put(append(b, make([]byte, 40*(2*int(h.leafK())-len(h.sets)))...))
}

func (h *HDF5) putTree(node uint64) uint64 {
	b := append([]byte("TREE\x00\x00\x01\x00"), words(undefined, undefined, 0, node)...)
	last := uint64(0)
	if n := len(h.sets); n > 0 {
		last = h.sets[n-1].link
	}
	b = append(b, words(last)...)
	return h.put(append(b, make([]byte, 24+8*(4*internalK+1)-len(b))...))
}

// entry is the first part of an entry of a symbol table; 16 bytes follow.
func entry(link, header uint64, cached uint32) []byte {
	b := binary.LittleEndian.AppendUint32(words(link, header), cached)
	return append(b, 0, 0, 0, 0)
}

func words(all ...uint64) (b []byte) {
	for _, v := range all {
		b = binary.LittleEndian.AppendUint64(b, v)
	}
	return b
}

// message is a part of an object header.
type message struct {
	kind uint16
	data []byte
}

func objectHeader(all ...message) []byte {
	var body []byte
	for _, m := range all {
		data := append(m.data, make([]byte, -len(m.data)&7)...)
		body = binary.LittleEndian.AppendUint16(body, m.kind)
		body = binary.LittleEndian.AppendUint16(body, uint16(len(data)))
		body = append(append(body, 0, 0, 0, 0), data...)
	}
	b := binary.LittleEndian.AppendUint16([]byte{1, 0}, uint16(len(all)))
	b = binary.LittleEndian.AppendUint32(b, 1) // references
	b = binary.LittleEndian.AppendUint32(b, uint32(len(body)))
	return append(append(b, 0, 0, 0, 0), body...)
}

func dataspace(shape []uint64) []byte {
	return append([]byte{1, byte(len(shape)), 0, 0, 0, 0, 0, 0}, words(shape...)...)
}

// datatype describes an element. A complex number is a compound of r and i, as h5py has it.
func datatype(c Class, size int, bigEndian bool) []byte {
	order := byte(0)
	if bigEndian {
		order = 1
	}
	head := func(class, b0, b1 byte) []byte {
		return binary.LittleEndian.AppendUint32([]byte{1<<4 | class, b0, b1, 0}, uint32(size))
	}
	bits := binary.LittleEndian.AppendUint16(make([]byte, 2), uint16(8*size))
	switch c {
	case Bool, Uint:
		return append(head(0, order, 0), bits...)
	case Int:
		return append(head(0, order|1<<3, 0), bits...)
	case Float:
		exponent, bias := byte(8), uint32(127)
		if size == 8 {
			exponent, bias = 11, 1023
		}
		mantissa := byte(8*size) - 1 - exponent
		b := append(head(1, order|2<<4, byte(8*size-1)), bits...) // the highest bit of the mantissa is implied
		return binary.LittleEndian.AppendUint32(append(b, mantissa, exponent, 0, mantissa), bias)
	}
	b := head(6, 2, 0)
	for i, name := range []string{"r", "i"} {
		b = append(b, name...)
		b = append(b, make([]byte, 7)...)
		b = binary.LittleEndian.AppendUint32(b, uint32(i*size/2))
		b = append(b, make([]byte, 28)...) // no dimensions
		b = append(b, datatype(Float, size/2, bigEndian)...)
	}
	return b
}
