package mpi_test

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"github.com/gorun-mpi/gorun/mpi"
	"github.com/gorun-mpi/gorun/mpi/mpitest"
)

// props are what calls are misused with: on a job of one rank.
type props struct {
	c     *mpi.Comm
	comms []*mpi.Comm // no communicators: nil, zero and freed
	cart  *mpi.Cart
	carts []*mpi.Cart // no grids
}

func newProps(c *mpi.Comm) (*props, error) {
	freed, err1 := c.Dup()
	cart, err2 := c.Cart([]int{1}, []bool{false}, false)
	freedCart, err3 := c.Cart([]int{1}, []bool{false}, false)
	if err := all(err1, err2, err3, freed.Free(), freedCart.Free()); err != nil {
		return nil, err
	}
	return &props{c, []*mpi.Comm{nil, {}, freed}, cart, []*mpi.Cart{nil, {}, {Comm: &mpi.Comm{}}, freedCart}}, nil
}

// nowhere makes a call on what is no communicator.
func (p *props) nowhere(call func(c *mpi.Comm) error) error {
	for _, c := range p.comms {
		if err := wantErr(fmt.Sprintf("on %v", c), call(c), mpi.ErrComm); err != nil {
			return err
		}
	}
	return nil
}

// gridless makes a call on what is no grid.
func (p *props) gridless(call func(t *mpi.Cart) error) error {
	for i, t := range p.carts {
		if err := wantErr(fmt.Sprintf("on grid %d", i), call(t), mpi.ErrComm); err != nil {
			return err
		}
	}
	return nil
}

// ended is a receive that was waited for.
func (p *props) ended() (mpi.Request, error) {
	r, err := mpi.Irecv(p.c, make([]int, 1), 0, 0)
	if err != nil {
		return r, err
	}
	return r, all(mpi.Send(p.c, unit, 0, 0), err1(r.Wait()))
}

// again expects that a call on a request that has ended says so; which is the index that the error names, if any.
func (p *props) again(call func(r mpi.Request) error, which ...int) error {
	r, err := p.ended()
	if err != nil {
		return err
	}
	err = call(r)
	var at *mpi.RequestError
	if len(which) > 0 && (!errors.As(err, &at) || at.Index != which[0]) {
		return fmt.Errorf("not request %d: %v", which[0], err)
	}
	return wantErr("ended", err, mpi.ErrRequest)
}

func wantAll(class error, errs ...error) error {
	for i, err := range errs {
		if err := wantErr(fmt.Sprintf("case %d", i), err, class); err != nil {
			return err
		}
	}
	return nil
}

// partitioned tries what PsendInit and PrecvInit have in common.
func (p *props) partitioned(init func(c *mpi.Comm, parts, peer, tag int) error) error {
	return all(p.nowhere(func(c *mpi.Comm) error { return init(c, 1, 0, 0) }), wantAll(mpi.ErrCount, init(p.c, 0, 0, 0), init(p.c, -1, 0, 0), init(p.c, 2, 0, 0)),
		wantAll(mpi.ErrRank, init(p.c, 1, 1, 0), init(p.c, 1, mpi.AnySource, 0)), wantAll(mpi.ErrTag, init(p.c, 1, 0, -5), init(p.c, 1, 0, mpi.MaxTag+1)))
}

// outside are views that do not fit their data, or make no sense.
var outside = []mpi.View[int]{{unit, mpi.Contiguous(2)}, {unit, mpi.Contiguous(-1)}, {nil, mpi.Vector(1, 1, 1)}, {unit, mpi.Contiguous(1).Shift(-1)}}

// outsides makes a call on each of them.
func outsides(call func(v mpi.View[int]) error) error {
	for i, v := range outside {
		if err := wantErr(fmt.Sprintf("view %d", i), call(v), mpi.ErrLayout); err != nil {
			return err
		}
	}
	return nil
}

// nothing ends never.
type nothing struct{}

func (nothing) OnDone(func(error)) {}

// misusedValues are the calls that wait for nobody, or are about what another call has made.
var misusedValues = map[string]func(p *props) error{
	"Cart.Coords": func(p *props) error {
		return all(p.gridless(func(t *mpi.Cart) error { return err1(t.Coords(0)) }), wantAll(mpi.ErrRank, err1(p.cart.Coords(1)), err1(p.cart.Coords(-1))))
	},
	"Cart.RankAt": func(p *props) error {
		return all(p.gridless(func(t *mpi.Cart) error { return err1(t.RankAt(0)) }), wantAll(mpi.ErrDims, err1(p.cart.RankAt(0, 0)), err1(p.cart.RankAt())))
	},
	"Cart.Shift": func(p *props) error {
		return all(p.gridless(func(t *mpi.Cart) error { return err2(t.Shift(0, 1)) }), wantAll(mpi.ErrDims, err2(p.cart.Shift(1, 1)), err2(p.cart.Shift(-1, 1))))
	},
	"Cart.Sub": func(p *props) error {
		return all(p.gridless(func(t *mpi.Cart) error { return err1(t.Sub([]bool{true})) }), wantAll(mpi.ErrDims, err1(p.cart.Sub(nil))))
	},
	"Cart.Dup": func(p *props) error { return p.gridless(func(t *mpi.Cart) error { return err1(t.Dup()) }) },
	"Graph.Dup": func(p *props) error {
		return wantAll(mpi.ErrComm, err1((*mpi.Graph)(nil).Dup()), err1(new(mpi.Graph).Dup()))
	},
	"NewHalo": func(p *props) error {
		return all(p.gridless(func(t *mpi.Cart) error { return err1(mpi.NewHalo(t, make([]int, 3), []int{3}, 1, false)) }),
			wantAll(mpi.ErrDims, err1(mpi.NewHalo(p.cart, unit, []int{1}, 1, false)), err1(mpi.NewHalo(p.cart, unit, nil, 1, false))),
			wantAll(mpi.ErrCount, err1(mpi.NewHalo(p.cart, unit, []int{3}, 1, false))), wantAll(mpi.ErrType, err1(mpi.NewHalo(p.cart, pointers, []int{3}, 1, false))))
	},
	"Dims": func(p *props) error {
		return wantAll(mpi.ErrDims, err1(mpi.Dims(0, nil)), err1(mpi.Dims(-4, []int{0})), err1(mpi.Dims(6, []int{4, 0})), err1(mpi.Dims(6, []int{-1})))
	},
	"Comm.Compare": func(p *props) error {
		return all(p.nowhere(func(c *mpi.Comm) error { return err1(c.Compare(p.c)) }), p.nowhere(func(c *mpi.Comm) error { return err1(p.c.Compare(c)) }))
	},
	"Comm.CreateGroup": func(p *props) error {
		return all(p.nowhere(func(c *mpi.Comm) error { return err1(c.CreateGroup(p.c.Group(), 0)) }), wantAll(mpi.ErrTag, err1(p.c.CreateGroup(p.c.Group(), -1))))
	},
	"Comm.Free": func(p *props) error {
		return all(p.nowhere((*mpi.Comm).Free), wantAll(mpi.ErrComm, mpi.World().Free(), p.c.Self().Free()))
	},
	"Comm.Merge": func(p *props) error {
		return all(p.nowhere(func(c *mpi.Comm) error { return err1(c.Merge(false)) }), wantAll(mpi.ErrComm, err1(p.c.Merge(false))))
	},
	"Comm.SetName": func(p *props) error { return p.nowhere(func(c *mpi.Comm) error { return c.SetName("x") }) },
	"IntercommCreate": func(p *props) error {
		return p.nowhere(func(c *mpi.Comm) error { return err1(mpi.IntercommCreate(c, 0, p.c, 0, 0)) })
	},
	"Health": func(p *props) error { return p.nowhere(func(c *mpi.Comm) error { return err2(mpi.Health(c)) }) },
	"Group.Include": func(p *props) error {
		return wantAll(mpi.ErrRank, err1(p.c.Group().Include(1)), err1(p.c.Group().Include(0, 0)), err1(mpi.Group{}.Include(-1)))
	},
	"Group.Exclude": func(p *props) error {
		return wantAll(mpi.ErrRank, err1(p.c.Group().Exclude(1)), err1(p.c.Group().Exclude(0, 0)), err1(mpi.Group{}.Exclude(-1)))
	},
	"Key.Set": func(p *props) error {
		return misusedKeys(p, func(k mpi.Key[int], c *mpi.Comm) error { return k.Set(c, 1) })
	},
	"Key.Delete": func(p *props) error {
		return misusedKeys(p, func(k mpi.Key[int], c *mpi.Comm) error { return k.Delete(c) })
	},
	"Layout.Err": func(p *props) error { return wantAll(mpi.ErrLayout, senseless()...) },
	"View.Pack": func(p *props) error {
		return all(outsides(func(v mpi.View[int]) error { return err1(v.Pack(make([]int, 3))) }), wantAll(mpi.ErrCount, err1(spread().Pack(make([]int, 2)))))
	},
	"View.Unpack": func(p *props) error {
		return all(outsides(func(v mpi.View[int]) error { return err1(v.Unpack(nil)) }), wantAll(mpi.ErrCount, err1(spread().Unpack(make([]int, 4)))))
	},
	"View.PackExternal": func(p *props) error {
		return all(outsides(func(v mpi.View[int]) error { return err1(v.PackExternal(make([]byte, 24))) }), wantAll(mpi.ErrCount, err1(spread().PackExternal(make([]byte, 23)))),
			wantAll(mpi.ErrType, err1(mpi.View[*int]{pointers, mpi.Contiguous(1)}.PackExternal(make([]byte, 8)))))
	},
	"View.UnpackExternal": func(p *props) error {
		return all(outsides(func(v mpi.View[int]) error { return err1(v.UnpackExternal(nil)) }),
			wantAll(mpi.ErrCount, err1(spread().UnpackExternal(make([]byte, 32))), err1(spread().UnpackExternal(make([]byte, 3)))),
			wantAll(mpi.ErrType, err1(mpi.View[*int]{pointers, mpi.Contiguous(1)}.UnpackExternal(nil))))
	},
	"PsendInit": func(p *props) error {
		return all(wantAll(mpi.ErrType, err1(mpi.PsendInit(p.c, pointers, 1, 0, 0))),
			p.partitioned(func(c *mpi.Comm, parts, peer, tag int) error { return err1(mpi.PsendInit(c, unit, parts, peer, tag)) }))
	},
	"PrecvInit": func(p *props) error {
		return all(wantAll(mpi.ErrType, err1(mpi.PrecvInit(p.c, pointers, 1, 0, 0))),
			p.partitioned(func(c *mpi.Comm, parts, peer, tag int) error {
				return err1(mpi.PrecvInit(c, make([]int, 1), parts, peer, tag))
			}))
	},
	"Partitioned.Start":   misusedParts,
	"Partitioned.Ready":   misusedParts,
	"Partitioned.Arrived": misusedParts,
	"Partitioned.Free":    misusedParts,
	"Persistent.Start":    misusedPersistent,
	"Persistent.Free":     misusedPersistent,
	"Startall": func(p *props) error {
		return all(wantErr("the second is none", startsSecond(p.c), mpi.ErrRequest), wantErr("lengths", mpi.Startall(nil, make([]mpi.Request, 1)), mpi.ErrCount))
	},
	"Request.Wait": func(p *props) error {
		return all(err1(mpi.Request{}.Wait()), p.again(func(r mpi.Request) error { return err1(r.Wait()) }))
	},
	"Request.Test": func(p *props) error {
		return all(err2(mpi.Request{}.Test()), p.again(func(r mpi.Request) error { return err2(r.Test()) }))
	},
	"Request.WaitContext": func(p *props) error {
		return p.again(func(r mpi.Request) error { return err1(r.WaitContext(context.Background())) })
	},
	"Request.Cancel": func(p *props) error {
		r, complete, err := mpi.NewRequest(p.c)
		return all(err, wantErr("no receive", r.Cancel(), mpi.ErrRequest), complete(mpi.Status{}, nil), err1(r.Wait()), mpi.Request{}.Cancel(), p.again(mpi.Request.Cancel))
	},
	"NewRequest": func(p *props) error {
		r, complete, err := mpi.NewRequest(p.c)
		return all(err, complete(mpi.Status{}, nil), wantErr("twice", complete(mpi.Status{}, nil), mpi.ErrRequest), err1(r.Wait()),
			p.nowhere(func(c *mpi.Comm) error { _, _, err := mpi.NewRequest(c); return err }))
	},
	"RequestOf": func(p *props) error {
		return all(p.nowhere(func(c *mpi.Comm) error { return err1(mpi.RequestOf(c, nothing{})) }), wantAll(mpi.ErrRequest, err1(mpi.RequestOf(p.c, nil))))
	},
	"Waitall": func(p *props) error {
		return p.again(func(r mpi.Request) error { return err1(mpi.Waitall([]mpi.Request{{}, r})) }, 1)
	},
	"WaitallInto": func(p *props) error {
		return all(p.again(func(r mpi.Request) error { return mpi.WaitallInto([]mpi.Request{{}, r}, nil) }, 1),
			wantAll(mpi.ErrCount, mpi.WaitallInto(nil, make([]mpi.Status, 1))))
	},
	"Waitany": func(p *props) error {
		return p.again(func(r mpi.Request) error { return err2(mpi.Waitany([]mpi.Request{{}, r})) }, 1)
	},
	"Waitsome": func(p *props) error {
		return p.again(func(r mpi.Request) error { return err2(mpi.Waitsome([]mpi.Request{{}, r})) }, 1)
	},
	"Testall": func(p *props) error {
		return p.again(func(r mpi.Request) error { return err2(mpi.Testall([]mpi.Request{{}, r})) }, 1)
	},
	"Testany": func(p *props) error {
		return p.again(func(r mpi.Request) error { return err3(mpi.Testany([]mpi.Request{{}, r})) }, 1)
	},
	"Testsome": func(p *props) error {
		return p.again(func(r mpi.Request) error { return err2(mpi.Testsome([]mpi.Request{{}, r})) }, 1)
	},
	"Mrecv":  func(p *props) error { return wantAll(mpi.ErrRequest, err1(mpi.Mrecv(mpi.Message{}, make([]int, 1)))) },
	"Imrecv": func(p *props) error { return wantAll(mpi.ErrRequest, err1(mpi.Imrecv(mpi.Message{}, make([]int, 1)))) },
	"ReduceLocal": func(p *props) error {
		return all(wantAll(mpi.ErrBuffer, mpi.ReduceLocal(unit, unit, mpi.Sum)), wantAll(mpi.ErrCount, mpi.ReduceLocal(unit, nil, mpi.Sum)),
			wantAll(mpi.ErrOp, mpi.ReduceLocal(unit, make([]int, 1), nil)))
	},
}

func misusedKeys(p *props, call func(k mpi.Key[int], c *mpi.Comm) error) error {
	k := mpi.NewKey[int](nil, nil)
	return all(p.nowhere(func(c *mpi.Comm) error { return call(k, c) }), wantAll(mpi.ErrKey, call(mpi.Key[int]{}, p.c)))
}

// senseless are the errors of layouts made of arguments that make no sense, and of what is made of those.
func senseless() (errs []error) {
	bad := mpi.Contiguous(-1)
	for _, l := range []mpi.Layout{bad, mpi.Vector(-1, 1, 1), mpi.Vector(1, -1, 1), mpi.Indexed([]int{1}, nil), mpi.Indexed([]int{-1}, []int{0}), mpi.Joined([]mpi.Layout{bad}, []int{0}),
		mpi.Joined(nil, []int{1}), mpi.Subarray(nil, nil, nil), mpi.Subarray([]int{2}, []int{3}, []int{0}), mpi.Subarray([]int{2}, []int{1}, []int{-1}), bad.Repeat(2, 1), mpi.Contiguous(1).Repeat(-1, 0),
		bad.Of(mpi.Contiguous(1)), mpi.Contiguous(1).Of(bad), bad.Shift(1), bad.Resized(0, 1), mpi.Contiguous(1).Resized(0, 1<<62)} {
		errs = append(errs, l.Err())
	}
	return errs
}

// misusedParts tries partitioned messages that were not made, were freed, not started, or have no such part.
func misusedParts(p *props) error {
	for _, x := range []*mpi.Partitioned{nil, {}} {
		if err := all(x.Free(), wantAll(mpi.ErrRequest, err1(x.Start()), x.Ready(), err1(x.Arrived()))); err != nil {
			return err
		}
	}
	send, err1s := mpi.PsendInit(p.c, []int{1, 2}, 2, 0, 3)
	recv, err1r := mpi.PrecvInit(p.c, make([]int, 2), 2, 0, 3)
	if err := all(err1s, err1r); err != nil {
		return err
	}
	idle := wantAll(mpi.ErrRequest, send.Ready(0))
	rs, errs := send.Start()
	rr, errr := recv.Start()
	return all(idle, errs, errr, wantAll(mpi.ErrRequest, err1(send.Start()), err1(recv.Start()), recv.Ready(0), err1(send.Arrived(0)), send.Free(), recv.Free()),
		wantAll(mpi.ErrCount, send.Ready(2), send.Ready(-1), err1(recv.Arrived(2))), send.Ready(0), wantAll(mpi.ErrRequest, send.Ready(0)), send.Ready(1),
		err1(rs.Wait()), err1(rr.Wait()), send.Free(), recv.Free(),
		wantAll(mpi.ErrRequest, send.Free(), recv.Free(), err1(send.Start()), send.Ready(0), err1(recv.Arrived(0))))
}

// misusedPersistent tries persistent calls that were not made, were freed, or are active, and one of a communicator that was freed.
func misusedPersistent(p *props) error {
	for _, x := range []*mpi.Persistent{nil, {}} {
		if err := all(x.Free(), wantAll(mpi.ErrRequest, err1(x.Start()))); err != nil {
			return err
		}
	}
	d, err := p.c.Dup()
	if err != nil {
		return err
	}
	recv, err1r := mpi.RecvInit(d, make([]int, 1), 0, 0)
	sum, err1s := mpi.AllreduceInit(d, unit, make([]int, 1), mpi.Sum)
	orphan, err1o := mpi.RecvInit(d, make([]int, 1), 0, 0)
	if err := all(err1r, err1s, err1o); err != nil {
		return err
	}
	r, errr := recv.Start()
	_, again := recv.Start()
	if at := (*mpi.Error)(nil); !errors.As(again, &at) || at.Call != "Start(source 0, tag 0)" || at.Peer != 0 || at.Tag != 0 {
		return fmt.Errorf("a second start: %#v", again)
	}
	return all(errr, wantAll(mpi.ErrRequest, again, recv.Free()), mpi.Send(d, unit, 0, 0), err1(r.Wait()), recv.Free(),
		wantAll(mpi.ErrRequest, recv.Free(), err1(recv.Start())), sum.Free(), wantAll(mpi.ErrRequest, sum.Free(), err1(sum.Start())),
		d.Free(), wantAll(mpi.ErrComm, err1(orphan.Start())), orphan.Free())
}

// Every call that waits for nobody says what is wrong.
func TestMisusedValues(t *testing.T) {
	mpitest.Run(t, 1, func(c *mpi.Comm) error {
		p, err := newProps(c)
		if err != nil {
			return err
		}
		for name, misuse := range misusedValues {
			if err := misuse(p); err != nil {
				return fmt.Errorf("%s: %w", name, err)
			}
		}
		return all(neighbourless(p), p.cart.Free())
	})
}

// neighbourless makes calls between neighbours where there is no topology.
func neighbourless(p *props) error {
	var none *mpi.Graph
	return all(wantAll(mpi.ErrComm, mpi.NeighborAllgather(nil, unit, unit), mpi.NeighborAllgather(none, unit, unit)),
		p.gridless(func(t *mpi.Cart) error { return mpi.NeighborAllgather(t, unit, unit[:0]) }),
		p.gridless(func(t *mpi.Cart) error { return mpi.NeighborAllgatherv(t, unit, unit[:0], nil, nil) }),
		p.gridless(func(t *mpi.Cart) error { return mpi.NeighborAlltoall(t, unit[:0], unit[:0]) }),
		p.gridless(func(t *mpi.Cart) error {
			return mpi.NeighborAlltoallv(t, unit[:0], nil, nil, unit[:0], nil, nil)
		}),
		p.gridless(func(t *mpi.Cart) error { return mpi.NeighborAlltoallw[int](t, nil, nil) }),
		wantAll(mpi.ErrComm, (*mpi.Halo[int])(nil).Exchange(), new(mpi.Halo[int]).Exchange(), err1((*mpi.Halo[int])(nil).Start()), err1(new(mpi.Halo[int]).Start())))
}

// harmless are calls that return no error. They answer for what is nil, zero or freed as well.
var harmless = map[string]func(p *props, c *mpi.Comm){
	"Cart.Dims":     func(p *props, _ *mpi.Comm) { eachCart(p, (*mpi.Cart).Dims) },
	"Cart.Periodic": func(p *props, _ *mpi.Comm) { eachCart(p, (*mpi.Cart).Periodic) },
	"Cart.WithContext": func(p *props, _ *mpi.Comm) {
		eachCart(p, func(t *mpi.Cart) *mpi.Cart { return t.WithContext(context.Background()) })
	},
	"Graph.Neighbors":   func(*props, *mpi.Comm) { (*mpi.Graph)(nil).Neighbors(); new(mpi.Graph).Neighbors() },
	"Graph.WithContext": func(*props, *mpi.Comm) { new(mpi.Graph).WithContext(context.Background()) },
	"Comm.FromWorld":    func(_ *props, c *mpi.Comm) { c.FromWorld(7) },
	"Comm.WorldRank":    func(_ *props, c *mpi.Comm) { c.WorldRank(-7) },
	"Comm.Group":        func(_ *props, c *mpi.Comm) { c.Group() },
	"Comm.Hints":        func(_ *props, c *mpi.Comm) { c.Hints() },
	"Comm.IsInter":      func(_ *props, c *mpi.Comm) { c.IsInter() },
	"Comm.Name":         func(_ *props, c *mpi.Comm) { _ = c.Name() },
	"Comm.Rank":         func(_ *props, c *mpi.Comm) { c.Rank() },
	"Comm.RemoteGroup":  func(_ *props, c *mpi.Comm) { c.RemoteGroup() },
	"Comm.RemoteSize":   func(_ *props, c *mpi.Comm) { c.RemoteSize() },
	"Comm.Self":         func(_ *props, c *mpi.Comm) { c.Self() },
	"Comm.Size":         func(_ *props, c *mpi.Comm) { c.Size() },
	"Comm.String":       func(_ *props, c *mpi.Comm) { _ = c.String() },
	"Comm.WithCodec":    func(_ *props, c *mpi.Comm) { c.WithCodec(nil) },
	"Comm.WithContext":  func(_ *props, c *mpi.Comm) { c.WithContext(nil) },
	"Comparison.String": func(*props, *mpi.Comm) { _ = mpi.Comparison(-1).String() },
	"State.String":      func(*props, *mpi.Comm) { _ = mpi.State(77).String() },
	"Group.Compare":     func(_ *props, c *mpi.Comm) { mpi.Group{}.Compare(c.Group()) },
	"Group.Difference":  func(_ *props, c *mpi.Comm) { mpi.Group{}.Difference(c.Group()) },
	"Group.Intersect":   func(_ *props, c *mpi.Comm) { c.Group().Intersect(mpi.Group{}) },
	"Group.Union":       func(_ *props, c *mpi.Comm) { mpi.Group{}.Union(c.Group()) },
	"Group.Rank":        func(*props, *mpi.Comm) { mpi.Group{}.Rank() },
	"Group.Size":        func(*props, *mpi.Comm) { mpi.Group{}.Size() },
	"Group.Translate":   func(_ *props, c *mpi.Comm) { mpi.Group{}.Translate(-1, c.Group()) },
	"Key.Get":           func(_ *props, c *mpi.Comm) { mpi.Key[int]{}.Get(c); mpi.NewKey[int](nil, nil).Get(c) },
	"Layout.Bounds":     func(*props, *mpi.Comm) { mpi.Contiguous(-1).Bounds() },
	"Layout.Extent":     func(*props, *mpi.Comm) { mpi.Contiguous(-1).Extent() },
	"Layout.Size":       func(*props, *mpi.Comm) { mpi.Contiguous(-1).Size() },
	"CountOf":           func(*props, *mpi.Comm) { mpi.CountOf[*int](mpi.Status{}); mpi.CountOf[struct{}](mpi.Status{Bytes: 8}) },
	"Request.Completed": func(*props, *mpi.Comm) { mpi.Request{}.Completed() },
	"Request.Done":      func(*props, *mpi.Comm) { <-mpi.Request{}.Done() },
}

func eachCart[A any](p *props, f func(t *mpi.Cart) A) {
	for _, t := range p.carts {
		f(t)
	}
}

// What returns no error answers, whatever it is asked about.
func TestHarmless(t *testing.T) {
	mpitest.Run(t, 1, func(c *mpi.Comm) error {
		p, err := newProps(c)
		if err != nil {
			return err
		}
		for _, call := range harmless {
			for _, x := range append(p.comms, c) {
				call(p, x)
			}
		}
		return p.cart.Free()
	})
}

// elsewhere are calls that nothing can be wrong with, or that other tests misuse.
var elsewhere = map[string]string{
	"Init": "process_test.go", "Finalize": "process_test.go", "Run": "process_test.go", "Abort": "it ends the process: process_test.go",
	"Initialized": "no argument", "Finalized": "no argument", "World": "no argument", "Self": "no argument", "Version": "no argument",
	"Wtime": "no argument", "Wtick": "no argument", "ProcessorName": "no argument",
	"Error.Error": "errors_test.go", "Error.Unwrap": "errors_test.go", "RequestError.Error": "errors_test.go", "RequestError.Unwrap": "errors_test.go",
	"TaskError.Error": "pool_test.go", "TaskError.Unwrap": "pool_test.go", "Map": "pool_test.go", "RunPool": "pool_test.go",
	"Pool.Map": "pool_test.go", "Pool.Submit": "pool_test.go", "Future.Wait": "pool_test.go", "Future.Done": "no argument",
	"Requests.Add": "what other calls return", "Requests.Wait": "example_pool_test.go", "Requests.Rest": "no argument",
	"NewKey": "see Key.Set", "OpFunc": "operator_test.go",
	"Contiguous": "see Layout.Err", "Vector": "see Layout.Err", "Indexed": "see Layout.Err", "Joined": "see Layout.Err", "Subarray": "see Layout.Err",
	"Layout.Of": "see Layout.Err", "Layout.Repeat": "see Layout.Err", "Layout.Resized": "see Layout.Err", "Layout.Shift": "see Layout.Err",
	"Sum": "an operator", "Prod": "an operator", "Max": "an operator", "Min": "an operator", "MaxLoc": "an operator", "MinLoc": "an operator",
	"LAnd": "an operator", "LOr": "an operator", "LXor": "an operator", "BAnd": "an operator", "BOr": "an operator", "BXor": "an operator",
}

// Every exported call has a row in a table, and every row is a call.
func TestEveryCallIsMisused(t *testing.T) {
	rows := map[string]bool{}
	for name := range messages {
		rows[name] = true
	}
	for _, table := range [][]use{misused, misusedForms} {
		for _, u := range table {
			rows[u.name] = true
		}
	}
	for name := range misusedValues {
		rows[name] = true
	}
	for name := range harmless {
		rows[name] = true
	}
	for name := range elsewhere {
		rows[name] = true
	}
	calls, _, _ := exported(t)
	for _, name := range calls {
		if !rows[name] {
			t.Errorf("%s has no row", name)
		}
		delete(rows, name)
	}
	for name := range rows {
		t.Errorf("there is no %s", name)
	}
}
