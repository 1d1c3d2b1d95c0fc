"""Compiles libelf and zlib as static libraries, from the sources that the crate libbpf-sys contains.

The sources are compiled directly, without autotools: libelf needs a few definitions of its configure script only.
"""

import glob
import json
import os
import shutil
from concurrent.futures import ThreadPoolExecutor

from .common import Failure, output, run

# What elfutils' configure script finds out about musl (elfutils/configure.ac).
CONFIG = """#include <eu-config.h>
#define HAVE_DECL_MEMRCHR 1
#define HAVE_DECL_RAWMEMCHR 0
#define HAVE_DECL_POWEROF2 1
#define HAVE_DECL_REALLOCARRAY 1
#define HAVE_DECL_MEMPCPY 1
#define HAVE_ERR_H 1
#define HAVE_MREMAP 1
#define HAVE_VISIBILITY 1
#define PACKAGE "libelf"
#define PACKAGE_NAME "elfutils"
"""


def source():
    """Folder of the crate libbpf-sys in the version of Cargo.lock."""
    metadata = json.loads(output(["cargo", "metadata", "--format-version", "1", "--locked"]))
    for package in metadata["packages"]:
        if package["name"] == "libbpf-sys":
            return os.path.dirname(package["manifest_path"])
    raise Failure("cargo metadata lists no libbpf-sys")


def build(release, zig):
    """Returns the environment variables by which the build of libbpf-sys finds both libraries."""
    crate = source()
    elfutils = os.path.join(crate, "elfutils")
    folder = os.path.join(release.stage, "libraries")
    shutil.rmtree(folder, ignore_errors=True)
    os.makedirs(os.path.join(folder, "config"))
    with open(os.path.join(folder, "config", "config.h"), "w") as file:
        file.write(CONFIG)
    compiler = [*zig, "cc", "-target", f"{release.arch}-linux-musl", "-O2", "-g0", "-fPIC", "-w", f"-ffile-prefix-map={crate}=libbpf-sys"]
    libelf = glob.glob(f"{elfutils}/libelf/*.c") + [f"{elfutils}/lib/crc32.c", f"{elfutils}/lib/next_prime.c"]
    elf_flags = ["-D_GNU_SOURCE", "-DHAVE_CONFIG_H", f"-I{folder}/config", f"-I{elfutils}/libelf", f"-I{elfutils}/lib", f"-I{crate}/zlib"]
    archive(zig, compiler + elf_flags, libelf, os.path.join(folder, "libelf.a"))
    zlib_flags = ["-D_LARGEFILE64_SOURCE=1", "-DHAVE_UNISTD_H"]
    archive(zig, compiler + zlib_flags, glob.glob(f"{crate}/zlib/*.c"), os.path.join(folder, "libz.a"))
    return {
        "LIBBPF_SYS_LIBRARY_PATH": folder,
        "LIBBPF_SYS_EXTRA_CFLAGS": f"-g0 -ffile-prefix-map={crate}=libbpf-sys -I{elfutils}/libelf -I{crate}/zlib",
        "PKG_CONFIG_ALLOW_CROSS": "1",
    }


def archive(zig, compiler, sources, library):
    """Compiles `sources` and puts them in a static library, in the order of their names."""
    objects = library.removesuffix(".a")
    os.makedirs(objects)
    pairs = [(file, os.path.join(objects, os.path.basename(file)[:-2] + ".o")) for file in sorted(sources)]
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        list(pool.map(lambda pair: run([*compiler, "-c", pair[0], "-o", pair[1]]), pairs))
    run([*zig, "ar", "rcsD", library, *(made for _, made in pairs)])
