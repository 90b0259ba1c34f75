"""Builds the kernels of `treelu.kernels`: one C source, compiled once for each level of the processor."""

from __future__ import annotations

import platform
import shutil
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from setuptools import Extension, setup
from setuptools.command.build_ext import build_ext
from setuptools.errors import CompileError

KERNELS = Path("src/treelu/kernels")
# sums may be reordered and contracted, NaN and infinity keep their meaning; none of it when linking, where it would
# change the whole process
ARITHMETIC = ["-fassociative-math", "-freciprocal-math", "-fno-signed-zeros", "-fno-trapping-math", "-fno-math-errno"]
FLAGS = ["-std=gnu11", "-O3", "-g0", "-ffp-contract=fast", *ARITHMETIC]
LEVELS = {"own": []}
if platform.machine() in ("x86_64", "AMD64"):
    wide = ["-march=x86-64-v4", "-mprefer-vector-width=512"]
    LEVELS = {"v1": ["-march=x86-64"], "v3": ["-march=x86-64-v3"], "v4": wide}


class BuildKernels(build_ext):
    """Compiles the kernels at each level, side by side, and links them into one module."""

    def initialize_options(self) -> None:
        """On Windows, take the compiler that CC names (Clang of MSYS2): the vector types are those of GCC and Clang."""
        super().initialize_options()
        if sys.platform == "win32":
            self.compiler = "mingw32"

    def build_extension(self, ext: Extension) -> None:
        command = getattr(self.compiler, "compiler", None)
        if command and not shutil.which(command[0]):
            raise CompileError(f"treelu needs GCC or Clang to build its kernels, and {command[0]} was not found")
        with ThreadPoolExecutor() as pool:
            ext.extra_objects = [each for objects in pool.map(self.compile_level, LEVELS) for each in objects]
        super().build_extension(ext)

    def compile_level(self, level: str) -> list[str]:
        """The object files of the kernels at one level."""
        return self.compiler.compile(
            [str(KERNELS / "kernels.c")],
            output_dir=str(Path(self.build_temp) / level),
            macros=[("LEVEL", level)],
            extra_postargs=[*FLAGS, *LEVELS[level]],
            depends=[str(path) for path in KERNELS.glob("*.h")],
        )


setup(
    ext_modules=[
        Extension(
            "treelu.kernels.compiled",
            [str(KERNELS / "compiled.c"), str(KERNELS / "exact.c")],
            extra_compile_args=["-g0", "-O3", "-ffp-contract=off"],  # exact.c: one arithmetic on every processor
            depends=[str(path) for path in (*KERNELS.glob("*.h"), KERNELS / "kernels.c")],
        )
    ],
    cmdclass={"build_ext": BuildKernels},
)
