// PTX that the kernels of giro and the libraries do not contain now, but that nvcc generates for ordinary code.
// instructions.cpp says what each result must be.

extern "C" {

__global__ void integer_instructions(unsigned int* y, const unsigned int* x) {
  const unsigned int a = x[0], b = x[1], c = x[2];
  asm("bfe.u32 %0, %1, 5, 7;" : "=r"(y[0]) : "r"(a));
  asm("bfe.s32 %0, %1, 28, 9;" : "=r"(y[1]) : "r"(a));
  asm("lop3.b32 %0, %1, %2, %3, 0xe8;" : "=r"(y[2]) : "r"(a), "r"(b), "r"(c));  // the majority
  asm("abs.s32 %0, %1;" : "=r"(y[3]) : "r"(a));
  y[4] = 0;
  for (unsigned int turn = 0; turn < 8; ++turn) {
    switch ((b + turn) % 8) {
      case 0:
        y[4] += a;
        y[6] = 1;
        break;
      case 1:
        y[4] *= 3;
        y[7] = 2;
        break;
      case 2:
        y[4] ^= c;
        y[8] = 3;
        break;
      case 3:
        y[4] -= c;
        y[9] = 4;
        break;
      case 4:
        y[4] /= 7;
        y[10] = 5;
        break;
      case 5:
        y[4] |= 5;
        y[11] = 6;
        break;
      case 6:
        y[4] <<= 1;
        y[12] = 7;
        break;
      default:
        y[4] = ~y[4];
        y[13] = 8;
    }
  }
  __shared__ unsigned int tile[2];
  tile[1] = c;
  const auto offset = static_cast<unsigned int>(__cvta_generic_to_shared(&tile[1]));
  asm volatile("ld.shared.u32 %0, [%1];" : "=r"(y[5]) : "r"(offset) : "memory");
}

// a is x[1]:x[0] and b is x[3]:x[2], 64 bits each. y holds a + b and a - b, each with its carry, and the 128 bits of a
// b.
__global__ void carrying_instructions(unsigned int* y, const unsigned int* x) {
  const unsigned int a0 = x[0], a1 = x[1], b0 = x[2], b1 = x[3];
  asm("add.cc.u32 %0, %3, %5;\n addc.cc.u32 %1, %4, %6;\n addc.u32 %2, 0, 0;"
      : "=&r"(y[0]), "=&r"(y[1]), "=&r"(y[2])
      : "r"(a0), "r"(a1), "r"(b0), "r"(b1));
  asm("sub.cc.u32 %0, %3, %5;\n subc.cc.u32 %1, %4, %6;\n subc.u32 %2, 0, 0;"
      : "=&r"(y[3]), "=&r"(y[4]), "=&r"(y[5])
      : "r"(a0), "r"(a1), "r"(b0), "r"(b1));
  asm("mul.lo.u32 %0, %4, %6;\n mul.hi.u32 %1, %4, %6;\n mad.lo.cc.u32 %1, %5, %6, %1;\n madc.hi.u32 %2, %5, %6, 0;\n"
      "mad.lo.cc.u32 %1, %4, %7, %1;\n madc.hi.cc.u32 %2, %4, %7, %2;\n addc.u32 %3, 0, 0;\n"
      "mad.lo.cc.u32 %2, %5, %7, %2;\n madc.hi.u32 %3, %5, %7, %3;"
      : "=&r"(y[6]), "=&r"(y[7]), "=&r"(y[8]), "=&r"(y[9])
      : "r"(a0), "r"(a1), "r"(b0), "r"(b1));
}

// Converts to binary16 and back.
__global__ void half_instructions(unsigned int* bits, float* y, const float* x, int n) {
  for (int i = 0; i < n; ++i) {
    unsigned short half = 0;
    asm("cvt.rn.f16.f32 %0, %1;" : "=h"(half) : "f"(x[i]));
    bits[i] = half;
    asm("cvt.f32.f16 %0, %1;" : "=f"(y[i]) : "h"(half));
  }
}

__global__ void bfloat16_instructions(unsigned int* bits, const float* x, int n) {
  for (int i = 0; i < n; ++i) {
    unsigned short upper = 0;
    asm("cvt.rn.bf16.f32 %0, %1;" : "=h"(upper) : "f"(x[i]));
    bits[i] = upper;
  }
}

// y = a b + c for bf16 and, behind it, f16: a (16, 16) and b (16, 8) as bits, c and y (16, 8). The indices are those of
// the PTX ISA's section on mma.m16n8k16.
__global__ void matrix_products(float* y, const unsigned short* a, const unsigned short* b, const float* c) {
  const unsigned int lane = threadIdx.x % 32, group = lane >> 2, in_group = lane % 4;
  for (unsigned int is_f16 = 0; is_f16 < 2; ++is_f16, a += 256, b += 128, y += 128) {
    unsigned int as[4] = {}, bs[2] = {};
    float sums[4];
    for (unsigned int i = 0; i < 8; ++i) {
      const unsigned int row = (i < 2 || (i >= 4 && i < 6)) ? group : group + 8;
      const unsigned int column = in_group * 2 + (i & 1) + (i < 4 ? 0 : 8);
      as[i / 2] |= unsigned(a[row * 16 + column]) << (16 * (i % 2));
    }
    for (unsigned int i = 0; i < 4; ++i) {
      const unsigned int row = in_group * 2 + (i & 1) + (i < 2 ? 0 : 8);
      bs[i / 2] |= unsigned(b[row * 8 + group]) << (16 * (i % 2));
    }
    const auto at = [&](unsigned int i) { return (i < 2 ? group : group + 8) * 8 + in_group * 2 + (i & 1); };
    for (unsigned int i = 0; i < 4; ++i) sums[i] = c[at(i)];
    if (is_f16) {
      asm("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, "
          "{%0, %1, %2, %3};"
          : "+f"(sums[0]), "+f"(sums[1]), "+f"(sums[2]), "+f"(sums[3])
          : "r"(as[0]), "r"(as[1]), "r"(as[2]), "r"(as[3]), "r"(bs[0]), "r"(bs[1]));
    } else {
      asm("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, "
          "{%0, %1, %2, %3};"
          : "+f"(sums[0]), "+f"(sums[1]), "+f"(sums[2]), "+f"(sums[3])
          : "r"(as[0]), "r"(as[1]), "r"(as[2]), "r"(as[3]), "r"(bs[0]), "r"(bs[1]));
    }
    for (unsigned int i = 0; i < 4; ++i) y[at(i)] = sums[i];
  }
}

// The first operand goes to the upper half.
__global__ void packing_instructions(unsigned int* y, const float* x) {
  asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(y[0]) : "f"(x[0]), "f"(x[1]));
  asm("cvt.rn.f16x2.f32 %0, %1, %2;" : "=r"(y[1]) : "f"(x[0]), "f"(x[1]));
}

// sin reduces large arguments in a function with a local array.
__global__ void sines(double* y, const double* x) {
  for (int i = 0; i < 4; ++i) y[i] = sin(x[i]);
}

__global__ void float_instructions(float* y, const float* x) {
  const float two = x[0], most = x[1], tiny = x[2], third = x[3], nan = x[4], zero = x[5];
  y[0] = __fmaf_rz(most, two, zero);
  y[1] = __fmaf_ru(-most, two, zero);
  y[2] = __fmaf_rd(most, two, zero);
  y[3] = __fmaf_ru(most, two, zero);
  y[4] = __fmaf_rd(1.0f, two, -two);
  y[5] = __fmaf_rn(1.0f, two, -two);
  y[6] = __fmul_rd(zero, two);
  y[7] = __fmul_rz(most, two);
  y[8] = __fmul_rz(third, third);
  y[9] = __fmul_ru(third, third);
  y[10] = __fadd_rd(1.0f, tiny);
  y[11] = __fadd_ru(1.0f, tiny);
  y[12] = __fadd_rz(-1.0f, tiny);
  asm("lg2.approx.ftz.f32 %0, %1;" : "=f"(y[13]) : "f"(third));
  asm("sin.approx.ftz.f32 %0, %1;" : "=f"(y[14]) : "f"(third));
  asm("cos.approx.ftz.f32 %0, %1;" : "=f"(y[15]) : "f"(third));
  asm("tanh.approx.f32 %0, %1;" : "=f"(y[16]) : "f"(third));
  asm("cvt.sat.f32.f32 %0, %1;" : "=f"(y[17]) : "f"(two));
  asm("cvt.ftz.f32.f32 %0, %1;" : "=f"(y[18]) : "f"(tiny));
  asm("{.reg .pred p, q, r; setp.lt.f32 q, %1, %2; setp.gt.f32 r, %1, %2; setp.ne.and.f32 p, %1, %2, q;"
      " setp.ne.and.f32 p, %1, %2, !r; selp.f32 %0, 0f3F800000, 0f00000000, p;}"
      : "=f"(y[19])
      : "f"(third), "f"(two));
  asm("{.reg .pred p, q, r; setp.gt.f32 r, %1, %2; setp.lt.xor.f32 p|q, %1, %2, r; "
      " selp.f32 %0, 0f3F800000, 0f00000000, p; @q add.f32 %0, %0, 0f40000000;}"
      : "=f"(y[20])
      : "f"(third), "f"(two));
  asm("{.reg .pred p; setp.ne.f32 p, %1, %2; selp.f32 %0, 0f3F800000, 0f00000000, p;}"
      : "=f"(y[21])
      : "f"(nan), "f"(two));
  asm("{.reg .pred p; setp.gt.ftz.f32 p, %1, 0f00000000; selp.f32 %0, 0f3F800000, 0f00000000, p;}"
      : "=f"(y[22])
      : "f"(tiny));
}

// Subnormal numbers are flushed in global memory and kept in shared memory, also through a generic address.
__global__ void atomic_sums(float* y, const float* x) {
  __shared__ float sums[2];
  sums[0] = sums[1] = 0.0f;
  const float tiny = x[2];
  float before;
  asm volatile("atom.global.add.f32 %0, [%1], %2;" : "=f"(before) : "l"(y), "f"(tiny) : "memory");
  asm volatile("atom.add.f32 %0, [%1], %2;" : "=f"(before) : "l"(y + 1), "f"(tiny) : "memory");
  const auto offset = static_cast<unsigned int>(__cvta_generic_to_shared(sums));
  asm volatile("atom.shared.add.f32 %0, [%1], %2;" : "=f"(before) : "r"(offset), "f"(tiny) : "memory");
  asm volatile("atom.add.f32 %0, [%1], %2;" : "=f"(before) : "l"(sums + 1), "f"(tiny) : "memory");
  y[2] = sums[0];
  y[3] = sums[1];
}

// Publishes with the memory model's instructions instead of fences. The last block adds up all blocks' results.
__global__ void release_and_acquire(unsigned int* y, unsigned int* tickets, unsigned int* flags) {
  const unsigned int block = blockIdx.x;
  y[block] = block + 1;
  asm volatile("st.release.gpu.global.u32 [%0], 1;" ::"l"(flags + block) : "memory");
  unsigned int before;
  asm volatile("atom.acq_rel.gpu.global.add.u32 %0, [%1], 1;" : "=r"(before) : "l"(tickets) : "memory");
  asm volatile("red.relaxed.gpu.global.add.u32 [%0], 1;" ::"l"(tickets + 1) : "memory");
  asm volatile("atom.relaxed.gpu.global.add.u32 _, [%0], 1;" ::"l"(tickets + 1) : "memory");
  if (before != gridDim.x - 1) {
    __nanosleep(10);
    asm volatile("exit;");
  }
  unsigned int sum = 0, raised;
  for (unsigned int b = 0; b < gridDim.x; ++b) {
    asm volatile("ld.acquire.gpu.global.L1::no_allocate.u32 %0, [%1];" : "=r"(raised) : "l"(flags + b) : "memory");
    sum += raised * y[b];
  }
  asm volatile("fence.acq_rel.gpu;" ::: "memory");
  y[gridDim.x] = sum;
}

}  // extern "C"
