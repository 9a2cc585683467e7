package mpi_test

import (
	"errors"
	"fmt"

	"github.com/gorun-mpi/gorun/mpi"
	"github.com/gorun-mpi/gorun/mpi/mpitest"
)

// matrix is 3 x 4 numbers: that in row i and column j is 10*i + j.
func matrix() []int {
	return []int{0, 1, 2, 3, 10, 11, 12, 13, 20, 21, 22, 23}
}

func picked(l mpi.Layout) {
	out := make([]int, l.Size())
	_, err := mpi.View[int]{matrix(), l}.Pack(out)
	fmt.Println(out, err)
}

func ExampleContiguous() {
	picked(mpi.Contiguous(3))
	// Output: [0 1 2] <nil>
}

func ExampleVector() {
	picked(mpi.Vector(3, 1, 4)) // a column
	picked(mpi.Vector(2, 2, 8)) // two elements of every second row
	// Output:
	// [0 10 20] <nil>
	// [0 1 20 21] <nil>
}

func ExampleIndexed() {
	picked(mpi.Indexed([]int{1, 2, 3}, []int{0, 5, 9}))
	// Output: [0 11 12 21 22 23] <nil>
}

func ExampleJoined() {
	column, row := mpi.Vector(3, 1, 4), mpi.Contiguous(4)
	picked(mpi.Joined([]mpi.Layout{column, row}, []int{1, 4}))
	// Output: [1 11 21 10 11 12 13] <nil>
}

func ExampleSubarray() {
	picked(mpi.Subarray([]int{3, 4}, []int{2, 2}, []int{1, 1}))
	// Output: [11 12 21 22] <nil>
}

func ExampleLayout_Repeat() {
	pair := mpi.Contiguous(2)
	picked(pair.Repeat(3, 4))
	// Output: [0 1 10 11 20 21] <nil>
}

func ExampleLayout_Resized() {
	column := mpi.Vector(3, 1, 4)
	column = column.Resized(0, 1) // the next column begins one element further
	picked(mpi.Contiguous(4).Of(column))
	// Output: [0 10 20 1 11 21 2 12 22 3 13 23] <nil>
}

func ExampleLayout_Shift() {
	picked(mpi.Vector(3, 1, 4).Shift(2))
	picked(mpi.Vector(4, 1, -1).Shift(3)) // backwards
	// Output:
	// [2 12 22] <nil>
	// [3 2 1 0] <nil>
}

func ExampleLayout_Of() {
	row := mpi.Contiguous(4)
	picked(mpi.Vector(2, 1, 2).Of(row)) // the rows 0 and 2
	// Output: [0 1 2 3 20 21 22 23] <nil>
}

func ExampleLayout_Size() {
	fmt.Println(mpi.Vector(3, 2, 4).Size())
	// Output: 6
}

func ExampleLayout_Extent() {
	fmt.Println(mpi.Vector(3, 2, 4).Extent(), mpi.Subarray([]int{3, 4}, []int{1, 1}, []int{0, 0}).Extent())
	// Output: 10 12
}

func ExampleLayout_Bounds() {
	fmt.Println(mpi.Vector(3, 2, 4).Shift(1).Bounds())
	// Output: 1 11
}

func ExampleLayout_Err() {
	l := mpi.Subarray([]int{3, 4}, []int{2, 2}, []int{2, 0})
	fmt.Println(l.Err())
	// Output: invalid layout: Subarray: 2 elements from 2 in a dimension of 3
}

func ExampleView_Pack() {
	column := make([]int, 3)
	n, err := mpi.View[int]{matrix(), mpi.Vector(3, 1, 4)}.Pack(column)
	fmt.Println(n, column, err)
	// Output: 3 [0 10 20] <nil>
}

func ExampleView_Unpack() {
	m := make([]int, 12)
	n, err := mpi.View[int]{m, mpi.Vector(3, 1, 4)}.Unpack([]int{7, 8, 9})
	fmt.Println(n, m, err)
	// Output: 3 [7 0 0 0 8 0 0 0 9 0 0 0] <nil>
}

func ExampleView_PackExternal() {
	p := make([]byte, 24)
	n, err := mpi.View[int32]{[]int32{1, 2, 3, 4}, mpi.Vector(2, 1, 2)}.PackExternal(p)
	fmt.Println(p[:n], err)
	// Output: [0 0 0 1 0 0 0 3] <nil>
}

func ExampleView_UnpackExternal() {
	m := make([]int32, 4)
	n, err := mpi.View[int32]{m, mpi.Vector(2, 1, 2)}.UnpackExternal([]byte{0, 0, 0, 1, 0, 0, 0, 3})
	fmt.Println(n, m, err)
	// Output: 8 [1 0 3 0] <nil>
}

func ExampleSendView() {
	mpitest.Example(2, func(c *mpi.Comm) error {
		if c.Rank() == 0 {
			return mpi.SendView(c, mpi.View[int]{matrix(), mpi.Vector(3, 1, 4)}, 1, 0)
		}
		column := make([]int, 3)
		_, err := mpi.Recv(c, column, 0, 0)
		fmt.Println(column)
		return err
	})
	// Output: [0 10 20]
}

func ExampleSsendView() {
	mpitest.Example(2, func(c *mpi.Comm) error {
		if c.Rank() == 0 { // returns when rank 1 receives
			return mpi.SsendView(c, mpi.View[int]{matrix(), mpi.Vector(3, 1, 4).Shift(3)}, 1, 0)
		}
		column := make([]int, 3)
		_, err := mpi.Recv(c, column, 0, 0)
		fmt.Println(column)
		return err
	})
	// Output: [3 13 23]
}

func ExampleRecvView() {
	mpitest.Example(2, func(c *mpi.Comm) error {
		if c.Rank() == 0 {
			return mpi.Send(c, []int{7, 8, 9}, 1, 0)
		}
		m := matrix()
		st, err := mpi.RecvView(c, mpi.View[int]{m, mpi.Vector(3, 1, 4)}, 0, 0)
		fmt.Println(st.Count, m)
		return err
	})
	// Output: 3 [7 1 2 3 8 11 12 13 9 21 22 23]
}

func ExampleSendrecvView() {
	mpitest.Example(2, func(c *mpi.Comm) error {
		m, other := matrix(), 1-c.Rank()
		right, left := mpi.Vector(3, 1, 4).Shift(3), mpi.Vector(3, 1, 4)
		_, err := mpi.SendrecvView(c, mpi.View[int]{m, right}, other, 0, mpi.View[int]{m, left}, other, 0)
		if c.Rank() == 0 {
			fmt.Println(m)
		}
		return err
	})
	// Output: [3 1 2 3 13 11 12 13 23 21 22 23]
}

// A matrix that lies on the ranks by rows comes to lie by columns.
func ExampleAlltoallw() {
	mpitest.Example(2, func(c *mpi.Comm) error {
		rows := []int{0, 1, 2, 3, 10, 11, 12, 13}
		if c.Rank() == 1 {
			rows = []int{20, 21, 22, 23, 30, 31, 32, 33}
		}
		columns := make([]int, 8) // 4 x 2
		var send, recv []mpi.View[int]
		for r := range 2 {
			send = append(send, mpi.View[int]{rows, mpi.Subarray([]int{2, 4}, []int{2, 2}, []int{0, 2 * r})})
			recv = append(recv, mpi.View[int]{columns[4*r:], mpi.Contiguous(4)})
		}
		err := mpi.Alltoallw(c, send, recv)
		if c.Rank() == 0 {
			fmt.Println(columns)
		}
		return err
	})
	// Output: [0 1 10 11 20 21 30 31]
}

// The layout refers to elements that the slice does not have.
func ExampleView() {
	_, err := mpi.View[int]{matrix(), mpi.Vector(4, 1, 4)}.Pack(make([]int, 4))
	fmt.Println(errors.Is(err, mpi.ErrLayout), errors.Unwrap(err))
	// Output: true invalid layout: it refers to elements 0 to 12 of 12
}

func ExampleIsendView() {
	mpitest.Example(2, func(c *mpi.Comm) error {
		if c.Rank() == 0 {
			r, err := mpi.IsendView(c, mpi.View[int]{matrix(), mpi.Vector(3, 1, 4)}, 1, 0)
			if err != nil {
				return err
			}
			// ... compute; the column is the library's meanwhile ...
			_, err = r.Wait()
			return err
		}
		column := make([]int, 3)
		_, err := mpi.Recv(c, column, 0, 0)
		fmt.Println(column)
		return err
	})
	// Output: [0 10 20]
}

func ExampleIssendView() {
	mpitest.Example(2, func(c *mpi.Comm) error {
		if c.Rank() == 0 {
			r, err := mpi.IssendView(c, mpi.View[int]{matrix(), mpi.Vector(3, 1, 4).Shift(3)}, 1, 0)
			if err != nil {
				return err
			}
			_, err = r.Wait() // returns when rank 1 receives
			return err
		}
		column := make([]int, 3)
		_, err := mpi.Recv(c, column, 0, 0)
		fmt.Println(column)
		return err
	})
	// Output: [3 13 23]
}

func ExampleIrecvView() {
	mpitest.Example(2, func(c *mpi.Comm) error {
		if c.Rank() == 0 {
			return mpi.Send(c, []int{7, 8, 9}, 1, 0)
		}
		m := matrix()
		r, err := mpi.IrecvView(c, mpi.View[int]{m, mpi.Vector(3, 1, 4)}, 0, 0)
		if err != nil {
			return err
		}
		st, err := r.Wait()
		fmt.Println(st.Count, m)
		return err
	})
	// Output: 3 [7 1 2 3 8 11 12 13 9 21 22 23]
}

// Each step sends what the last column is then.
func ExampleSendViewInit() {
	mpitest.Example(2, func(c *mpi.Comm) error {
		m, column := matrix(), make([]int, 3)
		p, err := mpi.SendViewInit(c, mpi.View[int]{m, mpi.Vector(3, 1, 4).Shift(3)}, 1-c.Rank(), 0)
		if err != nil {
			return err
		}
		for range 2 {
			m[3] += 100
			r, err := p.Start()
			if err != nil {
				return err
			}
			if _, err := mpi.Recv(c, column, 1-c.Rank(), 0); err != nil {
				return err
			}
			if _, err := r.Wait(); err != nil {
				return err
			}
		}
		if c.Rank() == 0 {
			fmt.Println(column)
		}
		return p.Free()
	})
	// Output: [203 13 23]
}

func ExampleSsendViewInit() {
	mpitest.Example(2, func(c *mpi.Comm) error {
		m, diagonal := matrix(), make([]int, 3)
		p, err := mpi.SsendViewInit(c, mpi.View[int]{m, mpi.Vector(3, 1, 5)}, 1-c.Rank(), 0)
		if err != nil {
			return err
		}
		r, err := p.Start()
		if err != nil {
			return err
		}
		if _, err := mpi.Recv(c, diagonal, 1-c.Rank(), 0); err != nil {
			return err
		}
		_, err = r.Wait() // the other rank receives
		if c.Rank() == 0 {
			fmt.Println(diagonal)
		}
		return errors.Join(err, p.Free())
	})
	// Output: [0 11 22]
}

// A halo of one column, again and again: what the other rank has at its right comes to the left.
func ExampleRecvViewInit() {
	mpitest.Example(2, func(c *mpi.Comm) error {
		m := matrix()
		left, right := mpi.View[int]{m, mpi.Vector(3, 1, 4)}, mpi.View[int]{m, mpi.Vector(3, 1, 4).Shift(2)}
		recv, err := mpi.RecvViewInit(c, left, 1-c.Rank(), 0)
		send, err2 := mpi.SendViewInit(c, right, 1-c.Rank(), 0)
		if err := errors.Join(err, err2); err != nil {
			return err
		}
		rs := make([]mpi.Request, 2)
		for step := range 2 {
			m[2] = step
			if err := mpi.Startall([]*mpi.Persistent{recv, send}, rs); err != nil {
				return err
			}
			if _, err := mpi.Waitall(rs); err != nil {
				return err
			}
		}
		if c.Rank() == 0 {
			fmt.Println(m)
		}
		return errors.Join(recv.Free(), send.Free())
	})
	// Output: [1 1 1 3 12 11 12 13 22 21 22 23]
}

// A matrix that lies on the ranks by rows comes to lie by columns while the program computes.
func ExampleIalltoallw() {
	mpitest.Example(2, func(c *mpi.Comm) error {
		rows := []int{0, 1, 2, 3, 10, 11, 12, 13}
		if c.Rank() == 1 {
			rows = []int{20, 21, 22, 23, 30, 31, 32, 33}
		}
		columns := make([]int, 8) // 4 x 2
		var send, recv []mpi.View[int]
		for r := range 2 {
			send = append(send, mpi.View[int]{rows, mpi.Subarray([]int{2, 4}, []int{2, 2}, []int{0, 2 * r})})
			recv = append(recv, mpi.View[int]{columns[4*r:], mpi.Contiguous(4)})
		}
		r, err := mpi.Ialltoallw(c, send, recv)
		if err != nil {
			return err
		}
		_, err = r.Wait()
		if c.Rank() == 1 {
			fmt.Println(columns)
		}
		return err
	})
	// Output: [2 3 12 13 22 23 32 33]
}

func ExampleAlltoallwInit() {
	mpitest.Example(2, func(c *mpi.Comm) error {
		in, out := make([]int, 2), make([]int, 4) // each rank's one element, and a gap
		send := []mpi.View[int]{{in, mpi.Contiguous(1)}, {in, mpi.Contiguous(1).Shift(1)}}
		recv := []mpi.View[int]{{out, mpi.Contiguous(1)}, {out, mpi.Contiguous(1).Shift(2)}}
		p, err := mpi.AlltoallwInit(c, send, recv)
		if err != nil {
			return err
		}
		for step := range 2 {
			in[0], in[1] = 10*step+c.Rank(), 100*step+c.Rank()
			r, err := p.Start()
			if err != nil {
				return err
			}
			if _, err := r.Wait(); err != nil {
				return err
			}
		}
		if c.Rank() == 1 {
			fmt.Println(out)
		}
		return p.Free()
	})
	// Output: [100 0 101 0]
}
