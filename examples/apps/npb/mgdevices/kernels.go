package main

import "github.com/gorun-mpi/gorun/device"

const openCL = `
#pragma OPENCL EXTENSION cl_khr_fp64 : enable
#pragma OPENCL FP_CONTRACT OFF

kernel void set(global double *to, global const double *from) {
	size_t i = get_global_id(0);
	to[i] = from[i];
}

// Line y of a plane. Plane -1 lies below the others, and the one behind them above.
global const double *line(global const double *planes, global const double *below, global const double *above, int count, int n, int z, int y) {
	return (z < 0 ? below : z < count ? planes + (size_t)z * n * n : above) + (size_t)y * n;
}

kernel void weigh(global double *to, global const double *planes, global const double *below, global const double *above, int count, int step, int add,
		double w0, double w1, double w2, double w3) {
	int m = get_global_size(0), n = step * m;
	int x = step * get_global_id(0) + step - 1, y = step * get_global_id(1) + step - 1, z = step * get_global_id(2) + step - 1;
	int w = (x + n - 1) % n, e = (x + 1) % n;
	double faces = 0, edges = 0, corners = 0, self = 0;
	for (int dz = -1; dz <= 1; dz++)
		for (int dy = -1; dy <= 1; dy++) {
			global const double *l = line(planes, below, above, count, n, z + dz, (y + dy + n) % n);
			double beside = l[w] + l[e];
			switch (abs(dz) + abs(dy)) {
			case 0: self = l[x]; faces += beside; break;
			case 1: faces += l[x]; edges += beside; break;
			default: edges += l[x]; corners += beside;
			}
		}
	double sum = w0 * self + w1 * faces + w2 * edges + w3 * corners;
	size_t at = (get_global_id(2) * m + get_global_id(1)) * m + get_global_id(0);
	to[at] = add ? to[at] + sum : sum;
}

kernel void refine(global double *u, global const double *planes, global const double *below, int add) {
	int n = get_global_size(0), m = n / 2;
	int x = get_global_id(0), y = get_global_id(1), z = get_global_id(2);
	double sum = 0;
	for (int i = 0; i < 4; i++) {
		int cz = (z + 1) / 2 - 1 + (i / 2) * (1 - z % 2), cy = ((y + 1) / 2 - 1 + (i % 2) * (1 - y % 2) + m) % m;
		global const double *l = line(planes, below, below, 1 << 30, m, cz, cy);
		sum += l[((x + 1) / 2 + m - 1) % m] + l[x / 2];
	}
	size_t at = ((size_t)z * n + y) * n + x;
	u[at] = add ? u[at] + sum / 8 : sum / 8;
}

kernel void squares(global double *sums, global const double *r, int n) {
	size_t z = get_global_id(0);
	double sum = 0;
	for (int i = 0; i < n; i++)
		sum += r[z * n + i] * r[z * n + i];
	sums[z] = sum;
}
`

// set copies.
var set = device.NewKernel(
	device.OpenCL("set", openCL),
	device.Go("set", func(w device.Work, to, from []float64) {
		i, end := w.Range(0)
		copy(to[i:end], from[i:end])
	}))

// line is line y of a plane. Plane -1 lies below the others, and the one behind them above.
func line(planes, below, above []float64, count, n, z, y int) []float64 {
	switch {
	case z < 0:
		return below[y*n:][:n]
	case z < count:
		return planes[(z*n+y)*n:][:n]
	}
	return above[y*n:][:n]
}

// weigh adds up what the points around each point weigh. Of the planes that it reads every step-th point counts.
var weigh = device.NewKernel(
	device.OpenCL("weigh", openCL),
	device.Go("weigh", func(w device.Work, to, planes, below, above []float64, count, step, add int32, w0, w1, w2, w3 float64) {
		s, m := int(step), w.Global[0]
		n := s * m
		for z := w.From[2]; z < w.To[2]; z++ {
			for y := w.From[1]; y < w.To[1]; y++ {
				var l [9][]float64
				for i := range l {
					l[i] = line(planes, below, above, int(count), n, s*z+s-1+i/3-1, (s*y+s-1+i%3-1+n)%n)
				}
				out := to[(z*m+y)*m:][:m]
				for i, end := w.Range(0); i < end; i++ {
					x := s*i + s - 1
					e, o := (x+1)%n, (x+n-1)%n
					faces := l[4][o] + l[4][e] + l[1][x] + l[3][x] + l[5][x] + l[7][x]
					edges := l[0][x] + l[2][x] + l[6][x] + l[8][x] + l[1][o] + l[1][e] + l[3][o] + l[3][e] + l[5][o] + l[5][e] + l[7][o] + l[7][e]
					corners := l[0][o] + l[0][e] + l[2][o] + l[2][e] + l[6][o] + l[6][e] + l[8][o] + l[8][e]
					sum := w0*l[4][x] + w1*faces + w2*edges + w3*corners
					if add != 0 {
						sum += out[i]
					}
					out[i] = sum
				}
			}
		}
	}))

// refine takes the mean of the points of the coarser grid around each point.
var refine = device.NewKernel(
	device.OpenCL("refine", openCL),
	device.Go("refine", func(w device.Work, u, planes, below []float64, add int32) {
		n := w.Global[0]
		m := n / 2
		for z := w.From[2]; z < w.To[2]; z++ {
			for y := w.From[1]; y < w.To[1]; y++ {
				var l [4][]float64
				for i := range l {
					l[i] = line(planes, below, nil, w.Global[2], m, (z+1)/2-1+i/2*(1-z%2), ((y+1)/2-1+i%2*(1-y%2)+m)%m)
				}
				out := u[(z*n+y)*n:][:n]
				for x, end := w.Range(0); x < end; x++ {
					a, b := ((x+1)/2+m-1)%m, x/2
					mean := (l[0][a] + l[0][b] + l[1][a] + l[1][b] + l[2][a] + l[2][b] + l[3][a] + l[3][b]) / 8
					if add != 0 {
						mean += out[x]
					}
					out[x] = mean
				}
			}
		}
	}))

// squares adds up the squares of each plane of n points.
var squares = device.NewKernel(
	device.OpenCL("squares", openCL),
	device.Go("squares", func(w device.Work, sums, r []float64, n int32) {
		for z, end := w.Range(0); z < end; z++ {
			sums[z] = 0
			for _, v := range r[z*int(n) : (z+1)*int(n)] {
				sums[z] += v * v
			}
		}
	}))
