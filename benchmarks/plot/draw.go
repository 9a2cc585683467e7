package main

import (
	"fmt"
	"image/color"
	"math"
	"slices"
	"strings"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/plotter"
	"gonum.org/v1/plot/plotutil"
	"gonum.org/v1/plot/text"
	"gonum.org/v1/plot/vg"
)

// Size of the picture.
const (
	width  = 18 * vg.Centimeter
	height = 12 * vg.Centimeter
)

// draw makes the picture of data of one kind.
func draw(d data, title string, throughput bool) (*plot.Plot, error) {
	switch {
	case d.kind == times:
		return drawTimes(d, title)
	case d.kind == byRanks:
		return drawLines(d, empty(title, "ranks", d.points[0].what), func(p point) point { return p })
	case throughput && d.kind == messages:
		return drawLines(d, empty(title, "bytes", "Mbit/s"), func(p point) point {
			p.y, p.low, p.high = p.x*8e-6/p.y, p.x*8e-6/p.high, p.x*8e-6/p.low
			return p
		})
	}
	x := map[kind]string{messages: "bytes", scaling: "ranks"}[d.kind]
	return drawLines(d, empty(title, x, "microseconds"), func(p point) point {
		p.y, p.low, p.high = p.y*1e6, p.low*1e6, p.high*1e6
		return p
	})
}

// empty returns a picture with a logarithmic vertical axis and a grid.
func empty(title, x, y string) *plot.Plot {
	p := plot.New()
	p.Title.Text, p.X.Label.Text, p.Y.Label.Text = title, x, y
	p.Y.Scale, p.Y.Tick.Marker = plot.LogScale{}, plot.LogTicks{Prec: -1}
	p.Legend.Top, p.Legend.Left = true, true
	p.Add(plotter.NewGrid())
	return p
}

// line is the points of one line of the legend.
type line struct {
	name string
	plotter.XYs
	plotter.YErrors
}

// lines sorts the points into lines. A logarithm needs numbers above zero. Other points are left out, for
// example a ping-pong of no bytes from a throughput.
func lines(d data, convert func(point) point) []line {
	var all []line
	several := slices.ContainsFunc(d.points, func(p point) bool { return p.what != d.points[0].what })
	for _, p := range d.points {
		p = convert(p)
		if !(p.x > 0 && p.y > 0) {
			continue
		}
		name := p.series
		if several {
			name = strings.TrimSpace(name + " " + p.what)
		}
		i := slices.IndexFunc(all, func(l line) bool { return l.name == name })
		if i < 0 {
			i, all = len(all), append(all, line{name: name})
		}
		all[i].XYs = append(all[i].XYs, plotter.XY{X: p.x, Y: p.y})
		all[i].YErrors = append(all[i].YErrors, struct{ Low, High float64 }{p.y - p.low, p.high - p.y})
	}
	return all
}

// drawLines draws lines over a logarithmic axis.
func drawLines(d data, p *plot.Plot, convert func(point) point) (*plot.Plot, error) {
	p.X.Scale = plot.LogScale{}
	p.X.Tick.Marker = plot.LogTicks{Prec: -1}
	switch d.kind {
	case messages:
		p.X.Tick.Marker = plot.TickerFunc(func(lo, hi float64) []plot.Tick { return powers(lo, hi, 3) })
	case scaling:
		p.X.Tick.Marker = plot.TickerFunc(func(lo, hi float64) []plot.Tick { return powers(lo, hi, 1) })
	}
	all := lines(d, convert)
	if len(all) == 0 {
		return nil, fmt.Errorf("no number above zero")
	}
	for i, l := range all {
		drawn, dots, err := plotter.NewLinePoints(l.XYs)
		if err != nil {
			return nil, err
		}
		drawn.Color, dots.Color, dots.Shape = colour(i), colour(i), plotutil.Shape(i)
		drawn.Width = vg.Points(1.2)
		bars, err := plotter.NewYErrorBars(l)
		if err != nil {
			return nil, err
		}
		bars.Color = colour(i)
		p.Add(drawn, dots, bars)
		p.Legend.Add(l.name, drawn, dots)
	}
	p.X.Min, p.X.Max = p.X.Min/1.5, p.X.Max*1.5
	p.Y.Min, p.Y.Max = p.Y.Min/1.5, p.Y.Max*2.5
	return p, nil
}

// powers marks powers of two, every so many of them by its name: 8, 64, 512,
// 4K, ...
func powers(lo, hi float64, every int) (ticks []plot.Tick) {
	for i, v := 0, 1.0; v <= hi; i, v = i+1, v*2 {
		if v < lo {
			continue
		}
		t := plot.Tick{Value: v}
		if i%every == 0 {
			unit := i / 10
			t.Label = fmt.Sprintf("%d%s", 1<<(i%10), []string{"", "K", "M", "G", "T"}[unit])
		}
		ticks = append(ticks, t)
	}
	return ticks
}

// colour returns the colour of the i-th line.
func colour(i int) color.Color { return plotutil.DarkColors[i%len(plotutil.DarkColors)] }

// drawTimes draws one group of points for each quantity, one colour for each
// case.
func drawTimes(d data, title string) (*plot.Plot, error) {
	var quantities, cases []string
	for _, pt := range d.points {
		if !slices.Contains(quantities, pt.what) {
			quantities = append(quantities, pt.what)
		}
		if !slices.Contains(cases, pt.series) {
			cases = append(cases, pt.series)
		}
	}
	p := empty(title, "", "milliseconds")
	for i, name := range cases {
		l := line{name: name}
		for _, pt := range d.points {
			if pt.series != name || !(pt.y > 0) {
				continue
			}
			x := float64(slices.Index(quantities, pt.what)) + 0.15*(float64(i)-float64(len(cases)-1)/2)
			l.XYs = append(l.XYs, plotter.XY{X: x, Y: pt.y * 1e3})
			l.YErrors = append(l.YErrors, struct{ Low, High float64 }{(pt.y - pt.low) * 1e3, (pt.high - pt.y) * 1e3})
		}
		dots, err := plotter.NewScatter(l.XYs)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
		dots.Color, dots.Shape = colour(i), plotutil.Shape(i)
		bars, err := plotter.NewYErrorBars(l)
		if err != nil {
			return nil, err
		}
		bars.Color = colour(i)
		p.Add(dots, bars)
		p.Legend.Add(name, dots)
	}
	p.NominalX(quantities...)
	p.X.Min, p.X.Max = -0.5, float64(len(quantities))-0.5
	p.Y.Min, p.Y.Max = p.Y.Min/1.5, p.Y.Max*4
	p.X.Tick.Label.Rotation, p.X.Tick.Label.XAlign, p.X.Tick.Label.YAlign = math.Pi/6, text.XRight, text.YCenter
	return p, nil
}
