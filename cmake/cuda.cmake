# The CUDA half: nvcc, the architectures to build for, and headers of the libraries that are opened at run time.
# CMake 3.25 does not know that nvcc speaks C++20.
set(CMAKE_CUDA20_STANDARD_COMPILE_OPTION -std=c++20)
set(CMAKE_CUDA20_EXTENSION_COMPILE_OPTION -std=c++20)
set(CMAKE_CUDA_STANDARD 20)
if(NOT CMAKE_CUDA_ARCHITECTURES)
  set(CMAKE_CUDA_ARCHITECTURES 90a-real)
endif()
enable_language(CUDA)
find_package(CUDAToolkit REQUIRED)

target_compile_definitions(gradmill_options INTERFACE GRADMILL_WITH_CUDA)
target_include_directories(gradmill_options SYSTEM INTERFACE ${CUDAToolkit_INCLUDE_DIRS})
target_link_libraries(gradmill_options INTERFACE CUDA::cudart_static ${CMAKE_DL_LIBS})
# Lambdas of run_op are templates over device and type; -lineinfo lets the tools name source lines and costs nothing.
target_compile_options(gradmill_options INTERFACE $<$<COMPILE_LANGUAGE:CUDA>:-lineinfo -Werror=all-warnings -Xcompiler=-Wall>)
