# Run with -P at build time: fills build_info.cpp.in with the commit that is checked out now.
find_program(GIT git)
set(GIT_HASH unknown)
if(GIT)
  execute_process(COMMAND ${GIT} -C ${SOURCE_DIR} describe --always --dirty --abbrev=12
                  OUTPUT_VARIABLE found OUTPUT_STRIP_TRAILING_WHITESPACE ERROR_QUIET RESULT_VARIABLE failed)
  if(NOT failed)
    set(GIT_HASH ${found})
  endif()
endif()
configure_file(${SOURCE_DIR}/src/core/build_info.cpp.in ${OUTPUT} @ONLY)
