package main

import (
	"math"

	"github.com/gorun-mpi/gorun/device"
)

const gravity = 9.81

// inC is what kernels in OpenCL C and in CUDA C have in common. A cell is three numbers, u the momentum along the direction that is looked at.
const inC = `
#define GRAVITY 9.81

// What flows from l to r, if no wave is faster than s: Rusanov's flux.
FUNCTION void flux(double *f, double lh, double lu, double lv, double rh, double ru, double rv, double s) {
	double le = lu * lu / lh + GRAVITY / 2 * lh * lh, re = ru * ru / rh + GRAVITY / 2 * rh * rh;
	f[0] = (lu + ru - s * (rh - lh)) / 2;
	f[1] = (le + re - s * (ru - lu)) / 2;
	f[2] = (lu * lv / lh + ru * rv / rh - s * (rv - lv)) / 2;
}
`

// rushBody and flowBody are the kernels' bodies in both.
const rushBody = `
	double most = 0;
	for (int j = 0; j < n; j++) {
		GLOBAL const double *q = now + ((size_t)(i + 1) * n + j) * 3;
		most = fmax(most, fmax(fabs(q[1]), fabs(q[2])) / q[0] + sqrt(GRAVITY * q[0]));
	}
	speed[i] = most;
`

const flowBody = `
	GLOBAL const double *q = now + ((i + 1) * n + j) * 3, *w = now + ((i + 1) * n + (j + n - 1) % n) * 3, *e = now + ((i + 1) * n + (j + 1) % n) * 3;
	GLOBAL const double *u = q - n * 3, *d = q + n * 3;
	double fw[3], fe[3], fu[3], fd[3];
	flux(fw, w[0], w[1], w[2], q[0], q[1], q[2], s);
	flux(fe, q[0], q[1], q[2], e[0], e[1], e[2], s);
	flux(fu, u[0], u[2], u[1], q[0], q[2], q[1], s);
	flux(fd, q[0], q[2], q[1], d[0], d[2], d[1], s);
	GLOBAL double *to = next + (i * n + j) * 3;
	to[0] = q[0] - r * (fe[0] - fw[0] + fd[0] - fu[0]);
	to[1] = q[1] - r * (fe[1] - fw[1] + fd[2] - fu[2]);
	to[2] = q[2] - r * (fe[2] - fw[2] + fd[1] - fu[1]);
`

const openCL = `
#pragma OPENCL FP_CONTRACT OFF
#define FUNCTION
#define GLOBAL global
` + inC + `
kernel void rush(global double *speed, global const double *now, int n) {
	int i = get_global_id(0);` + rushBody + `}
kernel void flow(global double *next, global const double *now, double r, double s) {
	size_t j = get_global_id(0), i = get_global_id(1), n = get_global_size(0);` + flowBody + `}
`

const cudaC = `
#define FUNCTION __device__
#define GLOBAL
` + inC + `
extern "C" __global__ void rush(double *speed, const double *now, int n) {
	int i = blockIdx.x * blockDim.x + threadIdx.x;` + rushBody + `}
extern "C" __global__ void flow(double *next, const double *now, double r, double s) {
	size_t j = blockIdx.x * blockDim.x + threadIdx.x, i = blockIdx.y * blockDim.y + threadIdx.y, n = gridDim.x * blockDim.x;` + flowBody + `}
`

// rush finds the speed of the fastest wave of each row. now has a row before and one behind those.
var rush = device.NewKernel(
	device.OpenCL("rush", openCL),
	device.CUDA("rush", cudaC, "--fmad=false"),
	device.Go("rush", func(w device.Work, speed, now []float64, n int32) {
		for i, end := w.Range(0); i < end; i++ {
			most := 0.0
			for j := range int(n) {
				q := now[((i+1)*int(n)+j)*cell:]
				most = max(most, max(math.Abs(q[1]), math.Abs(q[2]))/q[0]+math.Sqrt(gravity*q[0]))
			}
			speed[i] = most
		}
	}))

// flow goes on by r cells for a wave of speed 1. No wave is faster than s.
var flow = device.NewKernel(
	device.OpenCL("flow", openCL),
	device.CUDA("flow", cudaC, "--fmad=false"),
	device.Go("flow", func(w device.Work, next, now []float64, r, s float64) {
		n := w.Global[0]
		at := func(i, j int) []float64 { return now[((i+1)*n+j)*cell:][:cell] }
		for i := w.From[1]; i < w.To[1]; i++ {
			for j, end := w.Range(0); j < end; j++ {
				q := at(i, j)
				fw, fe := flux(at(i, (j+n-1)%n), q, 1, 2, s), flux(q, at(i, (j+1)%n), 1, 2, s)
				fu, fd := flux(at(i-1, j), q, 2, 1, s), flux(q, at(i+1, j), 2, 1, s)
				to := next[(i*n+j)*cell:]
				to[0] = q[0] - float64(r*(fe[0]-fw[0]+fd[0]-fu[0]))
				to[1] = q[1] - float64(r*(fe[1]-fw[1]+fd[2]-fu[2]))
				to[2] = q[2] - float64(r*(fe[2]-fw[2]+fd[1]-fu[1]))
			}
		}
	}))

// flux is what flows from l to r, along the component u of momentum. Conversions keep products from being fused with sums.
func flux(l, r []float64, u, v int, s float64) [cell]float64 {
	le, re := float64(l[u]*l[u]/l[0])+float64(gravity/2*l[0]*l[0]), float64(r[u]*r[u]/r[0])+float64(gravity/2*r[0]*r[0])
	return [cell]float64{
		(l[u] + r[u] - float64(s*(r[0]-l[0]))) / 2,
		(le + re - float64(s*(r[u]-l[u]))) / 2,
		(l[u]*l[v]/l[0] + r[u]*r[v]/r[0] - float64(s*(r[v]-l[v]))) / 2,
	}
}
