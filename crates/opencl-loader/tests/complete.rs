//! Checks that every function that cl-sys 0.4.3 declares is defined.
//!
//! Linking is the test. build.rs hides the real OpenCL from the linker, so a function that this crate does not define
//! is an undefined symbol. The list was extracted from the source of cl-sys, not of this crate.

#![cfg(not(target_os = "macos"))]

use std::collections::HashSet;

use koel_opencl_loader as _;

macro_rules! addresses {
    ($($name:ident),* $(,)?) => { [$(cl_sys::$name as *const () as usize),*] };
}

#[rustfmt::skip]
fn addresses() -> impl IntoIterator<Item = usize> {
    addresses![
        clBuildProgram, clCloneKernel, clCompileProgram, clCreateBuffer, clCreateCommandQueue,
        clCreateCommandQueueWithProperties, clCreateContext, clCreateContextFromType,
        clCreateFromGLBuffer, clCreateFromGLRenderbuffer, clCreateFromGLTexture,
        clCreateFromGLTexture2D, clCreateFromGLTexture3D, clCreateImage, clCreateImage2D,
        clCreateImage3D, clCreateKernel, clCreateKernelsInProgram, clCreatePipe,
        clCreateProgramWithBinary, clCreateProgramWithBuiltInKernels, clCreateProgramWithIL,
        clCreateProgramWithSource, clCreateSampler, clCreateSamplerWithProperties,
        clCreateSubBuffer, clCreateSubDevices, clCreateUserEvent, clEnqueueAcquireGLObjects,
        clEnqueueBarrier, clEnqueueBarrierWithWaitList, clEnqueueCopyBuffer,
        clEnqueueCopyBufferRect, clEnqueueCopyBufferToImage, clEnqueueCopyImage,
        clEnqueueCopyImageToBuffer, clEnqueueFillBuffer, clEnqueueFillImage, clEnqueueMapBuffer,
        clEnqueueMapImage, clEnqueueMarker, clEnqueueMarkerWithWaitList, clEnqueueMigrateMemObjects,
        clEnqueueNDRangeKernel, clEnqueueNativeKernel, clEnqueueReadBuffer, clEnqueueReadBufferRect,
        clEnqueueReadImage, clEnqueueReleaseGLObjects, clEnqueueSVMFree, clEnqueueSVMMap,
        clEnqueueSVMMemFill, clEnqueueSVMMemcpy, clEnqueueSVMMigrateMem, clEnqueueSVMUnmap,
        clEnqueueTask, clEnqueueUnmapMemObject, clEnqueueWaitForEvents, clEnqueueWriteBuffer,
        clEnqueueWriteBufferRect, clEnqueueWriteImage, clFinish, clFlush, clGetCommandQueueInfo,
        clGetContextInfo, clGetDeviceAndHostTimer, clGetDeviceIDs, clGetDeviceInfo, clGetEventInfo,
        clGetEventProfilingInfo, clGetExtensionFunctionAddress,
        clGetExtensionFunctionAddressForPlatform, clGetGLContextInfoKHR, clGetGLObjectInfo,
        clGetGLTextureInfo, clGetHostTimer, clGetImageInfo, clGetKernelArgInfo, clGetKernelInfo,
        clGetKernelSubGroupInfo, clGetKernelWorkGroupInfo, clGetMemObjectInfo, clGetPipeInfo,
        clGetPlatformIDs, clGetPlatformInfo, clGetProgramBuildInfo, clGetProgramInfo,
        clGetSamplerInfo, clGetSupportedImageFormats, clLinkProgram, clReleaseCommandQueue,
        clReleaseContext, clReleaseDevice, clReleaseEvent, clReleaseKernel, clReleaseMemObject,
        clReleaseProgram, clReleaseSampler, clRetainCommandQueue, clRetainContext, clRetainDevice,
        clRetainEvent, clRetainKernel, clRetainMemObject, clRetainProgram, clRetainSampler,
        clSVMAlloc, clSVMFree, clSetDefaultDeviceCommandQueue, clSetEventCallback, clSetKernelArg,
        clSetKernelArgSVMPointer, clSetKernelExecInfo, clSetMemObjectDestructorCallback,
        clSetUserEventStatus, clUnloadCompiler, clWaitForEvents,
    ]
}

#[test]
fn every_function_of_cl_sys_is_defined() {
    let distinct: HashSet<usize> = addresses().into_iter().collect();
    assert_eq!(distinct.len(), 117, "two names share a function, or the list changed");
}
