package mpi

import (
	"bytes"
	"fmt"
)

// Collectives of any Go values. The codec of c makes bytes of them (Gob unless WithCodec says otherwise). A value
// that cannot be encoded on one rank fails the call on all. One that cannot be decoded fails it there alone.

// BcastObject returns root's v on every rank. On the root that is v itself, elsewhere a copy. The other ranks' v
// is not looked at; on an intercommunicator ranks that give ProcNull get it back. Errors: as Bcast, and those of the codec. (MPI-4.1, chapter 6.4)
func BcastObject[T any](c *Comm, v T, root int) (got T, err error) {
	defer func() { err = called("BcastObject", err) }()
	var packed []byte
	given := c.isRoot(root) || c.crosses() && root == ProcNull
	if c.isRoot(root) {
		var err error
		if packed, err = encode(c, v); err != nil {
			return v, c.refuse(kindBcast, root, err)
		}
	}
	n, err := BcastValue(c, len(packed), root)
	if err != nil {
		return v, err
	}
	if !given {
		packed = make([]byte, n)
	}
	if err := Bcast(c, packed, root); err != nil || given {
		return v, err
	}
	return decode[T](c, "BcastObject", packed)
}

// GatherObjects returns all ranks' v on the root, by rank, and nil elsewhere. Errors: as Gather, and those of the
// codec. (MPI-4.1, chapter 6.5)
func GatherObjects[T any](c *Comm, v T, root int) (vs []T, err error) {
	defer func() { err = called("GatherObjects", err) }()
	packed, err := encode(c, v)
	if err != nil {
		return nil, c.refuse(kindGather, root, err)
	}
	all, counts, err := GatherAlloc(c, packed, root)
	if err != nil || all == nil {
		return nil, err
	}
	return decodeAll[T](c, "GatherObjects", cut(all, counts))
}

// AllgatherObjects returns all ranks' v on every rank, by rank. Errors: as Allgather, and those of the codec.
// (MPI-4.1, chapter 6.7)
func AllgatherObjects[T any](c *Comm, v T) (vs []T, err error) {
	defer func() { err = called("AllgatherObjects", err) }()
	packed, err := encode(c, v)
	if err != nil {
		return nil, c.refuse(kindAllgather, noRoot, err)
	}
	all, counts, err := AllgatherAlloc(c, packed)
	if err != nil {
		return nil, err
	}
	return decodeAll[T](c, "AllgatherObjects", cut(all, counts))
}

// ScatterObjects returns the i-th of root's vs on rank i. On the root vs has Size() values. Elsewhere it is
// ignored and may be nil. On an intercommunicator they are RemoteSize(), and the group of the root gets the zero value. Errors: as Scatter, and those of the codec. (MPI-4.1, chapter 6.6)
func ScatterObjects[T any](c *Comm, vs []T, root int) (v T, err error) {
	defer func() { err = called("ScatterObjects", err) }()
	var none T
	var counts []int
	var all []byte
	if c.isRoot(root) {
		err := compare("vs", len(vs), c.others())
		for i := 0; i < len(vs) && err == nil; i++ {
			var packed []byte
			packed, err = encode(c, vs[i])
			counts, all = append(counts, len(packed)), append(all, packed...)
		}
		if err != nil {
			return none, c.refuse(kindScatter, root, err)
		}
	}
	n := []int{0}
	if err := Scatter(c, counts, n, root); err != nil {
		return none, err
	}
	mine := make([]byte, n[0])
	if err := Scatterv(c, all, counts, nil, mine, root); err != nil || c.crosses() && root < 0 {
		return none, err
	}
	return decode[T](c, "ScatterObjects", mine)
}

// AlltoallObjects sends vs[i] to rank i, and returns what each rank has sent to this one, by rank. vs has Size() values, on an
// intercommunicator RemoteSize(). Errors: as Alltoall, and those of the codec. (MPI-4.1, chapter 6.8)
func AlltoallObjects[T any](c *Comm, vs []T) (got []T, err error) {
	defer func() { err = called("AlltoallObjects", err) }()
	packed := make([][]byte, len(vs))
	err = compare("vs", len(vs), c.others())
	for i := 0; i < len(vs) && err == nil; i++ {
		packed[i], err = encode(c, vs[i])
	}
	if err != nil {
		return nil, c.refuse(kindAlltoall, noRoot, err)
	}
	pieces, err := AlltoallAlloc(c, packed)
	if err != nil {
		return nil, err
	}
	return decodeAll[T](c, "AlltoallObjects", pieces)
}

// encode returns v as bytes. Where there is no communicator there is no codec: the call itself will say so.
func encode[T any](c *Comm, v T) ([]byte, error) {
	if c.none() {
		return nil, nil
	}
	var b bytes.Buffer
	if err := c.codec.Encode(&b, &v); err != nil { // of a pointer: T may be an interface
		return nil, fmt.Errorf("encoding a %T: %w", v, err)
	}
	return b.Bytes(), nil
}

func decode[T any](c *Comm, call string, p []byte) (v T, err error) {
	if err := c.codec.Decode(bytes.NewReader(p), &v); err != nil {
		return v, c.fail(call, fmt.Errorf("decoding into %T: %w", &v, err))
	}
	return v, nil
}

func decodeAll[T any](c *Comm, call string, pieces [][]byte) ([]T, error) {
	all := make([]T, len(pieces))
	for i, p := range pieces {
		var err error
		if all[i], err = decode[T](c, call, p); err != nil {
			return nil, fmt.Errorf("the value of rank %d: %w", i, err)
		}
	}
	return all, nil
}
