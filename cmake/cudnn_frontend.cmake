# Attention through cuDNN: its headers, and those of cudnn-frontend. Sets GRADMILL_CUDNN if both are here; without them
# our own kernels do all attention. The library itself is opened at run time.
find_path(CUDNN_INCLUDE_DIR cudnn_graph.h HINTS ${CUDAToolkit_INCLUDE_DIRS})
find_path(CUDNN_FRONTEND_INCLUDE_DIR cudnn_frontend.h HINTS ${CUDNN_FRONTEND_DIR}/include ${CUDNN_FRONTEND_DIR}
          ${CUDAToolkit_INCLUDE_DIRS})

if(CUDNN_INCLUDE_DIR AND NOT CUDNN_FRONTEND_INCLUDE_DIR)
  set(fetched ${CMAKE_BINARY_DIR}/cudnn_frontend)
  execute_process(COMMAND ${PROJECT_SOURCE_DIR}/tools/fetch_cudnn_frontend.sh ${fetched}
                  RESULT_VARIABLE failed ERROR_VARIABLE reason OUTPUT_QUIET)
  if(failed)
    message(WARNING "cudnn-frontend could not be fetched from PyPI; attention will not use cuDNN. "
                    "CUDNN_FRONTEND_DIR may name a copy of it.\n${reason}")
  else()
    set(CUDNN_FRONTEND_INCLUDE_DIR ${fetched}/include CACHE PATH "" FORCE)
  endif()
endif()

set(GRADMILL_CUDNN OFF)
if(CUDNN_INCLUDE_DIR AND CUDNN_FRONTEND_INCLUDE_DIR)
  set(GRADMILL_CUDNN ON)
  message(STATUS "Attention through cuDNN: ${CUDNN_FRONTEND_INCLUDE_DIR}")
elseif(NOT CUDNN_INCLUDE_DIR)
  message(STATUS "No cuDNN headers: attention will not use cuDNN")
endif()
