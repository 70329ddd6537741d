# Front door: thin wrappers over the CMake presets and scripts/. `make demo` and `make test` install what they need.
JOBS ?= $(shell nproc)
PREFIX ?= /usr/local
export JOBS

.PHONY: help build demo test check bench format lint fuzz asan tsan cuda install uninstall clean

help:
	@echo 'make demo      install what is needed, build, fetch a small instruct model, answer a prompt, print the speed'
	@echo 'make test      install what is needed, build, run every test'
	@echo 'make build     the release build: build/release/bin/mlxcel'
	@echo 'make check     layer rules, sizes and formatting of the tree (seconds, no build)'
	@echo 'make lint      check, plus clang-tidy on the files changed since main (ALL=1: on every file)'
	@echo 'make format    clang-format 19 on every source file'
	@echo 'make bench     kernel benchmarks, and the end-to-end speed of the demo model'
	@echo 'make fuzz      each libFuzzer target for FUZZ_SECONDS (60)'
	@echo 'make asan      every test under AddressSanitizer and UndefinedBehaviorSanitizer'
	@echo 'make tsan      every test under ThreadSanitizer'
	@echo 'make cuda      the release build with the CUDA backend: build/cuda/bin/mlxcel'
	@echo 'make install   installs below PREFIX (/usr/local)'

build:
	@scripts/install_deps.sh
	@scripts/build.sh release

demo:
	@scripts/demo.sh

test:
	@scripts/test.sh

check:
	@scripts/check.sh

lint: check
	@scripts/lint.sh

format:
	@scripts/install_deps.sh tools
	@git ls-files -z '*.h' '*.cc' '*.cu' '*.cuh' | xargs -0 -P $(JOBS) -n 32 clang-format-19 -i

bench:
	@scripts/bench.sh

fuzz:
	@scripts/fuzz.sh

asan tsan:
	@scripts/sanitize.sh $@

cuda:
	@scripts/install_deps.sh
	@scripts/build.sh cuda

install: build
	cmake --install build/release --prefix "$(PREFIX)"

uninstall:
	rm -f "$(PREFIX)/bin/mlxcel"

clean:
	rm -rf build
