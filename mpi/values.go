package mpi

// AllreduceValue is Allreduce of a single value. Every rank gets the combination, on an intercommunicator that of the other group.
// Errors: as Allreduce. (MPI-4.1, chapter 6.9.6)
func AllreduceValue[T any](c *Comm, v T, op Op[T]) (T, error) {
	buf, s := oneOf(v)
	defer s.giveBack()
	if c.crosses() {
		recv, r := oneOf(v)
		defer r.giveBack()
		err := Allreduce(c, buf, recv, op)
		return valueOf("AllreduceValue", recv, err)
	}
	err := AllreduceInPlace(c, buf, op)
	return valueOf("AllreduceValue", buf, err)
}

// BcastValue is Bcast of a single value. Every rank gets root's v. Errors: as Bcast. (MPI-4.1, chapter 6.4)
func BcastValue[T any](c *Comm, v T, root int) (T, error) {
	buf, s := oneOf(v)
	defer s.giveBack()
	err := Bcast(c, buf, root)
	return valueOf("BcastValue", buf, err)
}

// ReduceValue is Reduce of a single value. The root gets the combination, all others the zero value. Errors: as
// Reduce. (MPI-4.1, chapter 6.9.1)
func ReduceValue[T any](c *Comm, v T, op Op[T], root int) (T, error) {
	var none T
	buf, s := oneOf(v)
	defer s.giveBack()
	recv, r := oneOf(none)
	defer r.giveBack()
	err := Reduce(c, buf, recv, op, root)
	return valueOf("ReduceValue", recv, err)
}

// ScanValue is Scan of a single value. Rank i gets the combination of ranks 0..i. Errors: as Allreduce. (MPI-4.1,
// chapter 6.11.1)
func ScanValue[T any](c *Comm, v T, op Op[T]) (T, error) {
	buf, s := oneOf(v)
	defer s.giveBack()
	err := ScanInPlace(c, buf, op)
	return valueOf("ScanValue", buf, err)
}

// oneOf returns a slice of v alone, in pooled memory. A type with pointers must not lie there: the call that gets
// the slice refuses it.
func oneOf[T any](v T) ([]T, *scratch) {
	if _, err := elem[T](); err != nil {
		return []T{v}, nil
	}
	buf, s := borrowSlice[T](1)
	buf[0] = v
	return buf, s
}

// valueOf is what a call returns that another has made on a slice of one value.
func valueOf[T any](call string, buf []T, err error) (T, error) {
	if err != nil {
		var none T
		return none, called(call, err)
	}
	return buf[0], nil
}
