# The CUDA half: nvcc, the architectures to build for, and headers of the libraries that are opened at run time.
# CMake 3.25 does not know that nvcc speaks C++20.
set(CMAKE_CUDA20_STANDARD_COMPILE_OPTION -std=c++20)
set(CMAKE_CUDA20_EXTENSION_COMPILE_OPTION -std=c++20)
set(CMAKE_CUDA_STANDARD 20)
# By default for the GPU of this machine, else for Hopper. Instructions of one generation only have their names with an a.
if(NOT CMAKE_CUDA_ARCHITECTURES)
  set(CMAKE_CUDA_ARCHITECTURES 90a-real)
  execute_process(COMMAND nvidia-smi --query-gpu=compute_cap --format=csv,noheader
                  OUTPUT_VARIABLE capability ERROR_QUIET RESULT_VARIABLE failed)
  if(failed EQUAL 0 AND capability MATCHES "^([0-9]+)\\.([0-9])")
    set(arch ${CMAKE_MATCH_1}${CMAKE_MATCH_2})
    if(arch GREATER_EQUAL 90)
      set(CMAKE_CUDA_ARCHITECTURES ${arch}a-real)
    else()
      set(CMAKE_CUDA_ARCHITECTURES ${arch}-real)
    endif()
  endif()
endif()
enable_language(CUDA)
gradmill_keep_asserts(CUDA)
find_package(CUDAToolkit 13 REQUIRED)

# fmt 9 turns its constexpr off under nvcc, and then its own consteval checks do not compile.
target_compile_definitions(gradmill_options INTERFACE GRADMILL_WITH_CUDA $<$<COMPILE_LANGUAGE:CUDA>:FMT_USE_CONSTEXPR=1>)
target_include_directories(gradmill_options SYSTEM INTERFACE ${CUDAToolkit_INCLUDE_DIRS})
target_link_libraries(gradmill_options INTERFACE CUDA::cudart_static ${CMAKE_DL_LIBS})
# Lambdas of run_op are templates over device and type; -lineinfo lets the tools name source lines and costs nothing.
target_compile_options(gradmill_options INTERFACE $<$<COMPILE_LANGUAGE:CUDA>:-lineinfo -Xcompiler=-Wall>)
if(GRADMILL_WERROR)
  target_compile_options(gradmill_options INTERFACE $<$<COMPILE_LANGUAGE:CUDA>:-Werror=all-warnings>)
endif()
