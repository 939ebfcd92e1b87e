# Language, warnings and the switches that presets set.
set(CMAKE_CXX_STANDARD 20)
set(CMAKE_CXX_STANDARD_REQUIRED ON)
set(CMAKE_CXX_EXTENSIONS OFF)
set(CMAKE_EXPORT_COMPILE_COMMANDS ON)
if(NOT CMAKE_BUILD_TYPE)
  set(CMAKE_BUILD_TYPE Release)
endif()

option(GRADMILL_TESTS "Build the tests" ON)
option(GRADMILL_FUZZ "Build the fuzz targets (clang only)" OFF)
option(GRADMILL_CUDA "Build the CUDA half of every op" OFF)
option(GRADMILL_ASSERTS "Check the contracts that are written as assert" ON)
option(GRADMILL_UNITY "Compile small files together, for a short first build" ON)
option(GRADMILL_WERROR "Warnings are errors, for those who work on Gradmill" OFF)
set(GRADMILL_SANITIZE "" CACHE STRING "Sanitizers, as -fsanitize= takes them")

# CMake's release flags turn asserts off. Ours check a few sizes and flags on the host for each op: too little to measure.
function(gradmill_keep_asserts language)
  if(GRADMILL_ASSERTS)
    string(REPLACE "-DNDEBUG" "" flags "${CMAKE_${language}_FLAGS_RELEASE}")
    set(CMAKE_${language}_FLAGS_RELEASE "${flags}" PARENT_SCOPE)
  endif()
endfunction()
gradmill_keep_asserts(CXX)

# Our own targets link this; dependencies are system headers and keep their warnings to themselves.
add_library(gradmill_options INTERFACE)
# nvcc hands these to its host compiler's second pass over code it generated: there they would warn about its style.
function(gradmill_cxx_options)
  foreach(option ${ARGN})
    target_compile_options(gradmill_options INTERFACE $<$<COMPILE_LANGUAGE:CXX>:${option}>)
  endforeach()
endfunction()
gradmill_cxx_options(-Wall -Wextra -Wpedantic -Wshadow -Wconversion -Wno-sign-conversion)
if(GRADMILL_WERROR)
  gradmill_cxx_options(-Werror)
endif()
# Designated initialisers leave optional tensors out on purpose.
gradmill_cxx_options(-Wno-missing-field-initializers)
# GCC 12 sees overlaps in std::string's operator+ that are not there (its bug 105651), and writes past the end in fmt.
if(CMAKE_CXX_COMPILER_ID STREQUAL GNU)
  gradmill_cxx_options(-Wno-restrict -Wno-stringop-overflow)
endif()
# Results must be the same in every build: no contraction the source does not ask for.
gradmill_cxx_options(-ffp-contract=off)
# AVX2 is the floor on x86 (every such CPU since 2015); Highway picks AVX-512 at run time.
if(CMAKE_SYSTEM_PROCESSOR MATCHES "x86_64|AMD64")
  gradmill_cxx_options(-march=x86-64-v3 -maes -mpclmul)
endif()
if(GRADMILL_SANITIZE)
  gradmill_cxx_options(-fsanitize=${GRADMILL_SANITIZE} -fno-omit-frame-pointer -fno-sanitize-recover=all)
  target_link_options(gradmill_options INTERFACE -fsanitize=${GRADMILL_SANITIZE})
endif()

if(GRADMILL_FUZZ)
  gradmill_cxx_options(-fsanitize=fuzzer-no-link)
endif()

find_program(CCACHE ccache)
if(CCACHE)
  set(CMAKE_CXX_COMPILER_LAUNCHER ${CCACHE})
  set(CMAKE_CUDA_COMPILER_LAUNCHER ${CCACHE})
endif()
